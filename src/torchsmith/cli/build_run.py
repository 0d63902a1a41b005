"""What `build` does between its options and its answer: plan, show, run, and tell how it went."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from torchsmith.build.farm import Builder
from torchsmith.build.farm_check import ask_isas
from torchsmith.build.jobs import recipes_above
from torchsmith.build.plan import BuildPlan
from torchsmith.build.run import RunSummary
from torchsmith.build.schedule import Task
from torchsmith.build.simulation import Simulated
from torchsmith.build.start import BuildRequest, Prepared, prepare, resumed
from torchsmith.cli.build_plan_view import plan_document, print_broken, print_plan, print_simulation
from torchsmith.cli.build_view import watching
from torchsmith.cli.by_name import SHOWN, next_steps
from torchsmith.cli.console import err, print_json
from torchsmith.cli.diagnosis_view import print_diagnosis
from torchsmith.cli.next_step import command, next_step
from torchsmith.cli.nix_options import tree_words
from torchsmith.cli.options import check_svg
from torchsmith.cli.paint import paint, tell, write
from torchsmith.cli.verified import look_at
from torchsmith.edge.problem import Conflict, Empty, Exit, Incomplete, Lacking
from torchsmith.edge.words import some_of
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Record
from torchsmith.workspace.load import Workspace


class SimulationDocument(msgspec.Struct, frozen=True):
    """The same builds on farms of several sizes, in hours."""

    farms: list[Simulated]


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
            isas=lambda builder: ask_isas(builder, workspace.catalog),
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
        if not as_json:
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
    there = f"; {len(finished.settled)} recipes were there or fetched" if finished.settled else ""
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
    from torchsmith.build.simulation import simulate_farms, simulated_jobs, tasks_of

    ready = prepared(request, workspace, record)
    plan = ready.plan
    if plan.graph is None:
        raise Lacking("a simulation needs derivations, which only Nix gives", hint="--backend nix")
    print_broken(plan, tell)
    if not plan.graph.recipes:
        raise Empty("no recipe evaluates, so there is nothing to simulate", exit=Exit.NOT_RIGHT)
    jobs = simulated_jobs(plan.graph, workspace.catalog)
    past = record.past()
    builders = ready.builders if workspace.settings.builder and not request.local else ()
    tasks = tasks_of(jobs, workspace.catalog, past)
    rows = simulate_farms(tasks, (1, 4, 16), builders)
    if svg is not None:
        _draw(tasks, builders, svg)
    if as_json:
        print_json(SimulationDocument(rows))
    else:
        basis = f"{len(past)} builds on record, else the catalog's" if past else "the catalog's estimates"
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


def _draw(tasks: Sequence[Task], builders: Sequence[Builder], svg: Path) -> None:
    """Our order on the workspace's builders, or on sixteen."""
    from torchsmith.build.schedule import Chains, longest_chain_first, simulate
    from torchsmith.build.simulation import farm_of, farms
    from torchsmith.cli.page_run import write_svg
    from torchsmith.page.pictures import schedule_picture

    drawn = {"your builders": farm_of(builders)} if builders else farms(tasks, (16,))
    name, slots = next(iter(drawn.items()))
    schedule = simulate(tasks, slots, longest_chain_first(Chains(tasks)))
    write_svg(schedule_picture(schedule, tasks, name), svg)
