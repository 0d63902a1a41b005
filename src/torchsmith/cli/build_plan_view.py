"""A plan for people: what is built, fetched or there already, and what it will cost."""

from __future__ import annotations

from collections import Counter

import msgspec
from rich.console import Console
from rich.text import Text

from torchsmith.build.machine import Share
from torchsmith.build.plan import Broken, BuildPlan
from torchsmith.build.simulation import Simulated
from torchsmith.cli.build_view import duration
from torchsmith.record import Expected

SHOWN = 40


def print_plan(console: Console, plan: BuildPlan) -> None:
    """A row a job, then the sums."""
    users = Counter(need for job in plan.jobs for need in job.needs)
    if plan.jobs:
        console.print(Text("   hours   memory     disk  job (~: a guess, nobody measured it)", style="cyan"))
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
        row = Text(f"{hours:>8} {memory:>5} GB {disk:>5} GB  {job.name}")
        facts = [f"{job.size} builds" if job.size > 1 else "", f"{cost.steps} steps" if cost.steps else ""]
        facts.append(job.system)
        facts += [f"needed by {users[job.key]} jobs" if users[job.key] > 1 else "", f"by {cost.basis}"]
        row.append(f"  {', '.join(filter(None, facts))}", style="dim")
        console.print(row, soft_wrap=True)
    if len(plan.jobs) > SHOWN:
        console.print(Text(f"… and {len(plan.jobs) - SHOWN} more jobs", style="dim"))
    _print_sums(console, plan)


def _print_sums(console: Console, plan: BuildPlan) -> None:
    recipes = len(plan.recipes)
    to_build = sum(len(job.recipes) for job in plan.jobs)
    console.print(
        f"{recipes} recipes: {to_build} to build, {len(plan.present)} in the store, "
        f"{len(plan.fetched)} in a binary cache ({plan.download_mib:.0f} MiB to fetch)",
        soft_wrap=True,
    )
    print_broken(console, plan)
    if not plan.jobs:
        return
    store = sum(one.store_gb for one in plan.expected.values())
    largest = sorted((one.build_gb for one in plan.expected.values()), reverse=True)[: plan.share.jobs]
    guessed = sum(bool(one.guesses) for one in plan.expected.values())
    if guessed:
        text = f"guesses stand in the costs of {guessed} jobs; finished builds replace them"
        console.print(Text(text, style="dim"), soft_wrap=True)
    console.print(
        f"{len(plan.jobs)} jobs, {duration(plan.seconds_of_work)} of work one after the other; "
        f"{plan.share.jobs} at once with {plan.share.cores} cores each; "
        f"{store:.0f} GB of store, {sum(largest):.0f} GB to build in, "
        f"{plan.per_core_gb:.1f} GB of memory for each compiler",
        soft_wrap=True,
    )


def print_broken(console: Console, plan: BuildPlan) -> None:
    """Recipes that do not evaluate; the same reason is told once."""
    whys: dict[str, list[str]] = {}
    for broken in plan.broken:
        whys.setdefault(broken.why, []).append(broken.name)
    for why, names in whys.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(Text(f"✗ {names[0]}{more}: {why}", style="red"), soft_wrap=True)


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
    jobs = [
        PlannedJob(
            job.name,
            job.targets,
            job.recipes,
            job.system,
            sorted(names[need] for need in job.needs if need in names),
            plan.of(job),
        )
        for job in plan.jobs
    ]
    return BuildPlanDocument(
        plan.recipes, plan.present, plan.fetched, plan.download_mib, plan.broken, plan.share, jobs
    )


def print_simulation(console: Console, rows: list[Simulated], jobs: int, basis: str) -> None:
    """Makespans in hours against the bound."""
    console.print(
        f"{jobs} long builds from nothing, one at a time on each 16-core builder; durations: {basis}",
        soft_wrap=True,
    )
    head = f"{'farm':18} {'torchsmith':>11} {'above':>6} {'Nix':>9} {'above':>6} {'bound':>9}"
    console.print(Text(head, style="cyan"), soft_wrap=True)
    for row in rows:
        line = Text(f"{row.farm:18} {row.ours:9.2f} h {row.gap:6.1%} {row.nix:7.2f} h {row.nix_gap:6.1%}")
        line.append(f" {row.bound:7.2f} h")
        bounds = ", ".join(
            f"{name.replace('-linux', '')} {hours:.1f}"
            for name, hours in row.bounds.items()
            if "+" not in name
        )
        console.print(line.append(f"  {bounds}", style="dim"), soft_wrap=True)
