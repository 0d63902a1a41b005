"""What `build` does between its options and its answer: plan, show, run, and tell how it went."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from torchsmith.api.nix_options import tree_words
from torchsmith.api.verified import look_at
from torchsmith.building import schedule
from torchsmith.building.farm import Builder
from torchsmith.building.job import Job
from torchsmith.building.jobs import recipes_above
from torchsmith.building.plan import Broken, BuildPlan, Share
from torchsmith.building.run import RunSummary
from torchsmith.building.start import BuildRequest, Prepared, prepare, resumed
from torchsmith.cli.build_view import watching
from torchsmith.cli.console import Printer, command, err, next_step, paint, print_json, tell, write
from torchsmith.cli.remaining import duration
from torchsmith.cli.svg import check_svg, write_svg
from torchsmith.cli.verbs.diagnose import print_diagnosis
from torchsmith.core.problem import Conflict, Empty, Exit, Incomplete, Lacking
from torchsmith.core.words import counted, grouped, some_of
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Expected, Record
from torchsmith.workspace.load import Workspace

LISTED = 40  # jobs of a plan
SHOWN = 6  # results, and recipes above a job that failed


class SimulationDocument(msgspec.Struct, frozen=True):
    """The same builds on farms of several sizes, in hours."""

    farms: list[schedule.Simulated]


def asked_before(
    record: Record, workspace: Path | None, recipes: Sequence[str], *, resume: bool
) -> BuildRequest:
    """What the last run was asked for where that goes on, else the recipes alone."""
    if not resume:
        return BuildRequest(workspace=workspace, selectors=tuple(recipes))
    if recipes:
        raise Conflict("--resume goes on with the last run; name no recipe")
    return resumed(record, workspace)


def prepared(request: BuildRequest, workspace: Workspace, record: Record) -> Prepared:
    """The plan, with a word on the terminal while recipes are evaluated."""
    with err().status("evaluating recipes") as status:
        return prepare(
            request,
            workspace,
            record,
            tell=lambda result: status.update(f"evaluated {result.name}"),
            look=partial(look_at, workspace.catalog) if request.verify else None,
        )


def carry_out(
    request: BuildRequest, workspace: Workspace, record: Record, *, dry_run: bool, as_json: bool
) -> Exit:
    """Plan and build."""
    ready = prepared(request, workspace, record)
    plan = ready.plan
    if dry_run:
        if as_json:
            print_json(plan_document(plan))
        else:
            print_plan(plan, write)
        ready.check()
        _say_next(request)
        return exit_of([one.why for one in plan.broken])
    if not as_json:
        print_plan(plan, tell)
    ready.check()
    with watching(plan, err(), as_json=as_json, slots=ready.limits().total) as show:
        finished = ready.run(show)
    if not as_json:
        _print_end(ready, finished)
    if finished.state == "stopped":
        raise KeyboardInterrupt
    return exit_of_run(finished, plan)


def exit_of_run(finished: RunSummary, plan: BuildPlan) -> Exit:
    """LACKING where nothing but downloads failed."""
    if finished.state == "done" and not (plan.broken or finished.notes or finished.wrong):
        return Exit.FINE
    kinds = {found.kind for found in finished.failed.values()}
    unread = exit_of([one.why for one in plan.broken])
    others = finished.notes or finished.wrong or Exit.NOT_RIGHT is unread
    return Exit.LACKING if (kinds or unread) and kinds <= {"network"} and not others else Exit.NOT_RIGHT


def _print_end(ready: Prepared, finished: RunSummary) -> None:
    request = ready.request
    for name, found in finished.failed.items():
        print_diagnosis(found, name, tell)
        # The recipes that a failed source, or another build that is no recipe, was for.
        if users := recipes_above(ready.plan.jobs, name):
            tell(paint("  for    ", "cyan", sys.stderr) + some_of(users, SHOWN))
        tell(f"  {command('log', name, workspace=request.workspace)}", "dim", whole=True)
    if finished.skipped:
        tell(f"not tried, because what they need failed: {', '.join(finished.skipped)}")
    for name, why in finished.wrong.items():
        tell(f"{name} is built, and not what its name says: {why}", "red")
    settled = counted(len(finished.settled), "recipe")
    there = f"; {settled} there already or fetched" if finished.settled else ""
    tell(f"{len(finished.done)} of {len(ready.plan.jobs)} jobs done{there}")
    names = [name for job in ready.plan.jobs if job.name in finished.done for name in job.recipes]
    right = [name for name in (*names, *finished.settled) if name not in finished.wrong]
    org, looked = ready.workspace.settings.org, request.verify
    for line in next_steps(ready.folder / "results", right, request.workspace, org, verified=looked):
        tell(line)
    if finished.state == "stopped":
        tell(f"stopped; {command('build', '--resume', workspace=request.workspace)} goes on")


def show_simulation(
    request: BuildRequest, workspace: Workspace, record: Record, *, as_json: bool, svg: Path | None = None
) -> None:
    """Our order against Nix' own and the bound."""
    ready = prepared(request, workspace, record)
    plan = ready.plan
    if plan.graph is None:
        raise Lacking("a simulation needs derivations, which only Nix gives", hint="--backend nix")
    print_broken(plan, tell)
    if not plan.graph.recipes:
        raise Empty("no recipe evaluates, so there is nothing to simulate", exit=Exit.NOT_RIGHT)
    jobs = schedule.simulated_jobs(plan.graph, workspace.catalog)
    past = record.past()
    builders = ready.builders if workspace.settings.builder and not request.local else ()
    tasks = schedule.tasks_of(jobs, workspace.catalog, past)
    rows = schedule.simulate_farms(tasks, (1, 4, 16), builders)
    if svg is not None:
        _draw(tasks, builders, svg)
    if as_json:
        print_json(SimulationDocument(rows))
    else:
        known = f"{counted(len(past), 'build')} on record, else " if past else ""
        basis = f"{known}the catalog's estimates"
        print_simulation(rows, len(jobs), basis)
    _say_next(request)


def _say_next(request: BuildRequest) -> None:
    """After a plan comes the build."""
    trees = tree_words(request.trees)
    next_step("build", *request.selectors, workspace=request.workspace, nixpkgs=trees)


def drawable(svg: Path | None, *, simulate: bool) -> None:
    """A Problem where a picture is asked for of something else than a simulation."""
    if svg is not None and not simulate:
        raise Incomplete(
            "--svg draws what --simulate finds", hint="torchsmith page draws a run of the record"
        )
    check_svg(svg)


def _draw(tasks: Sequence[schedule.Task], builders: Sequence[Builder], svg: Path) -> None:
    """Our order on the workspace's builders, or on sixteen."""
    from torchsmith.page.pictures import schedule_picture

    drawn = {"your builders": schedule.farm_of(builders)} if builders else schedule.farms(tasks, (16,))
    name, slots = next(iter(drawn.items()))
    placed = schedule.simulate(tasks, slots, schedule.longest_chain_first(schedule.Chains(tasks)))
    write_svg(schedule_picture(placed, tasks, name), svg)


def next_steps(
    results: Path, names: Sequence[str], workspace: Path | None, org: str = "", *, verified: bool = False
) -> list[str]:
    """Where builds are, and what is done with them next."""
    there = [name for name in names if (results / name).exists()]
    if not there:
        return []
    lines = ["results, kept from garbage collection:"]
    lines += [f"  {results / name} -> {(results / name).readlink()}" for name in there[:SHOWN]]
    lines += [f"  and {len(there) - SHOWN} more in {results}"] if len(there) > SHOWN else []
    lines.append("next:")
    # Of several, publish tells itself which are ready.
    publish = [["publish", *(there if len(there) == 1 else ())]] if org else []
    steps = [["verify", there[0]], ["test", there[0]], *publish]
    lines += [f"  {command(*words, workspace=workspace)}" for words in steps[verified:]]
    return lines


def print_plan(plan: BuildPlan, line: Printer) -> None:
    """A row a job, then the sums."""
    stream = sys.stdout if line is write else sys.stderr
    users = Counter(need for job in plan.jobs for need in job.needs)
    if plan.jobs:
        line("   hours   memory     disk  job (~: a guess, nobody measured it)", "cyan")
    for job in sorted(plan.jobs, key=lambda one: not one.recipes)[:LISTED]:  # what was asked for comes first
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
    if len(plan.jobs) > LISTED:
        line(f"… and {counted(len(plan.jobs) - LISTED, 'more job')}", "dim")
    _print_sums(plan, line)


def _print_sums(plan: BuildPlan, line: Printer) -> None:
    to_build = sum(len(job.recipes) for job in plan.jobs)
    line(
        f"{counted(len(plan.recipes), 'recipe')}: {to_build} to build, {len(plan.present)} in the store, "
        f"{len(plan.fetched)} in a binary cache ({plan.download_mib:.0f} MiB to fetch)"
    )
    print_broken(plan, line)
    if not plan.jobs:
        return
    if plan.graph is not None:
        builds = sum(not one.fixed for path in plan.graph.users if (one := plan.graph.derivations.get(path)))
        counts = f"{len(plan.graph.own)} of {counted(builds, 'build')}"
        line(f"{counts} below are this workspace's own; the public cache of nixpkgs can have the others")
    store = sum(one.store_gb for one in plan.expected.values())
    largest = sorted((one.build_gb for one in plan.expected.values()), reverse=True)[: plan.share.jobs]
    guessed = sum(bool(one.guesses) for one in plan.expected.values())
    if guessed:
        line(f"guesses stand in the costs of {counted(guessed, 'job')}; finished builds replace them", "dim")
    line(
        f"{counted(len(plan.jobs), 'job')}, {duration(plan.seconds_of_work)} of work one after the other; "
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


def print_simulation(rows: list[schedule.Simulated], jobs: int, basis: str) -> None:
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
