"""A plan for people: what is built, fetched or there already, and what it will cost."""

from __future__ import annotations

import sys
from collections import Counter

import msgspec

from torchsmith.build.job import Job
from torchsmith.build.machine import Share
from torchsmith.build.plan import Broken, BuildPlan
from torchsmith.build.simulation import Simulated
from torchsmith.cli.paint import Printer, paint, write
from torchsmith.cli.remaining import duration
from torchsmith.edge.words import grouped, some_of
from torchsmith.record import Expected

SHOWN = 40


def print_plan(plan: BuildPlan, line: Printer) -> None:
    """A row a job, then the sums."""
    stream = sys.stdout if line is write else sys.stderr
    users = Counter(need for job in plan.jobs for need in job.needs)
    if plan.jobs:
        line("   hours   memory     disk  job (~: a guess, nobody measured it)", "cyan")
    for job in sorted(plan.jobs, key=lambda one: not one.recipes)[:SHOWN]:  # what was asked for comes first
        cost = plan.of(job)
        hours, memory, disk = (
            f"{'~' if name in cost.guesses else ''}{figure}"
            for name, figure in (
                ("seconds", f"{cost.seconds / 3600:.2f}"),
                ("memory_gb", f"{cost.memory_gb:.0f}"),
                ("build_gb", f"{cost.build_gb:.0f}"),
            )
        )
        facts = [f"{job.size} builds" if job.size > 1 else "", f"{cost.steps} steps" if cost.steps else ""]
        facts.append(job.system)
        facts += [f"needed by {users[job.key]} jobs" if users[job.key] > 1 else "", f"by {cost.basis}"]
        told = paint(f"  {', '.join(filter(None, facts))}", "dim", stream)
        line(f"{hours:>8} {memory:>5} GB {disk:>5} GB  {job.name}{told}")
    if len(plan.jobs) > SHOWN:
        line(f"… and {len(plan.jobs) - SHOWN} more jobs", "dim")
    _print_sums(plan, line)


def _print_sums(plan: BuildPlan, line: Printer) -> None:
    to_build = sum(len(job.recipes) for job in plan.jobs)
    line(
        f"{len(plan.recipes)} recipes: {to_build} to build, {len(plan.present)} in the store, "
        f"{len(plan.fetched)} in a binary cache ({plan.download_mib:.0f} MiB to fetch)"
    )
    print_broken(plan, line)
    if not plan.jobs:
        return
    store = sum(one.store_gb for one in plan.expected.values())
    largest = sorted((one.build_gb for one in plan.expected.values()), reverse=True)[: plan.share.jobs]
    guessed = sum(bool(one.guesses) for one in plan.expected.values())
    if guessed:
        line(f"guesses stand in the costs of {guessed} jobs; finished builds replace them", "dim")
    line(
        f"{len(plan.jobs)} jobs, {duration(plan.seconds_of_work)} of work one after the other; "
        f"{plan.share.jobs} at once with {plan.share.cores} cores each; "
        f"{store:.0f} GB of store, {sum(largest):.0f} GB to build in, "
        f"{plan.per_core_gb:.1f} GB of memory for each compiler"
    )


def print_broken(plan: BuildPlan, line: Printer) -> None:
    """Recipes that do not evaluate; the same reason is told once."""
    for why, names in grouped((broken.why, broken.name) for broken in plan.broken).items():
        line(f"✗ {some_of(names)}: {why}", "red")


class PlannedJob(msgspec.Struct, frozen=True):
    """A job: what it builds, after which others, and at what cost."""

    name: str
    targets: tuple[str, ...]
    recipes: tuple[str, ...]
    system: str
    needs: list[str]
    expected: Expected


class BuildPlanDocument(msgspec.Struct, frozen=True):
    """What a build would do."""

    recipes: tuple[str, ...]
    present: tuple[str, ...]
    fetched: tuple[str, ...]
    download_mib: float
    broken: tuple[Broken, ...]
    share: Share
    jobs: list[PlannedJob]


def plan_document(plan: BuildPlan) -> BuildPlanDocument:
    """The plan as data."""
    names = {job.key: job.name for job in plan.jobs}

    def planned(job: Job) -> PlannedJob:
        needs = sorted(names[need] for need in job.needs if need in names)
        return PlannedJob(job.name, job.targets, job.recipes, job.system, needs, plan.of(job))

    there = (plan.recipes, plan.present, plan.fetched)
    return BuildPlanDocument(*there, plan.download_mib, plan.broken, plan.share, [*map(planned, plan.jobs)])


def print_simulation(rows: list[Simulated], jobs: int, basis: str) -> None:
    """Makespans in hours against the bound."""
    write(f"{jobs} long builds from nothing, one at a time on each 16-core builder; durations: {basis}")
    write(f"{'farm':18} {'torchsmith':>11} {'above':>6} {'Nix':>9} {'above':>6} {'bound':>9}", "cyan")
    for row in rows:
        bounds = ", ".join(
            f"{name.replace('-linux', '')} {hours:.1f}"
            for name, hours in row.bounds.items()
            if "+" not in name
        )
        figures = f"{row.ours:9.2f} h {row.gap:6.1%} {row.nix:7.2f} h {row.nix_gap:6.1%} {row.bound:7.2f} h"
        write(f"{row.farm:18} {figures}{paint(f'  {bounds}', 'dim')}")
