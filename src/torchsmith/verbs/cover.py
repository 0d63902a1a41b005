"""`torchsmith cover`: which variants to build for many machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.console import exit_if, next_step, print_commands, print_json, table, warn
from torchsmith.cli.console import write as say
from torchsmith.cli.machine_options import PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.files import check_writable, write_atomic
from torchsmith.core.problem import Empty, Exists, Invalid, MissingRequirement, Problem, by_name
from torchsmith.core.text import counted
from torchsmith.host.commands import build_commands, detect_environment
from torchsmith.host.cover import Cover, CoverPlan, Served
from torchsmith.host.fleet import Unread, read_fleet
from torchsmith.matrix import Cell, Variant
from torchsmith.matrix.text import matrix_text
from torchsmith.workspace.load import open_workspace, read_as

EXAMPLE = "torchsmith cover sample --curve 8"
MAX_SHOWN = 12  # rows of entries that were not read, and of machines that are slower or not served


@dataclass(frozen=True, kw_only=True)
class CoverRequest(Request):
    """Which few variants serve a fleet."""

    fleet: Annotated[
        Path,
        Argument(
            "A CSV file (name, count, weight, system, cpu, isa, features, gpu, sm, driver), a folder of"
            " reports, or sample.",
            metavar="FLEET",
        ),
    ]
    selectors: Selectors = ()
    best: Annotated[int | None, Option("The best plan with this many builds.", min=1)] = None
    package: PackagesOption = ()
    workload: WorkloadOption = "general"
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    curve: Annotated[int | None, Option("Show best plans up to this size.", min=1)] = None


class VariantUse(msgspec.Struct, frozen=True):
    """How many machines get a variant, and how many of them would be faster with another one."""

    variant: str
    machines: int
    slower: int


class CoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for a fleet, machine by machine, and with --curve the best plan of each size."""

    FORMAT: ClassVar = 3
    machines: int
    entries: int
    different: int
    demands: int
    candidates: int
    not_read: Sequence[Unread]
    columns_not_used: Sequence[str]
    plan: CoverPlan
    uses: Sequence[VariantUse]
    served: Sequence[Served]
    assumptions: dict[str, int]  # what must be true that the inventory does not say, for how many machines
    unknown_gpus: int  # machines that get a build for the CPU because their GPUs are unknown
    builds: dict[str, str]  # the variants with those of other packages, and the line of each
    packages: Sequence[str]
    create: dict[str, str]  # the commands that make the missing cells, by tool
    curve: Sequence[CoverPlan]

    @property
    def ok(self) -> bool:
        return not self.plan.not_served and not self.not_read


def cover(request: CoverRequest) -> CoverReport:
    """Return the fewest variants that serve every machine, or the best `best` of them, with the proof.
    Raises MissingRequirement, before anything is read, if the solver is not installed."""
    return _solve(request)[0]


def _solve(request: CoverRequest) -> tuple[CoverReport, list[Cell]]:
    """Return the report, and the cells to build, companions included."""
    if find_spec("highspy") is None:
        hint = "pip install highspy; or pipx inject torchsmith highspy; or uv tool install --with highspy ."
        raise MissingRequirement("cover needs the solver highspy", hint=hint)
    opened = open_workspace(request.workspace, request.profile, default_profile="every")
    catalog = opened.catalog
    fleet = read_fleet(request.fleet, catalog)
    workload = by_name("workload", request.workload, catalog.workloads)
    candidates = opened.select(request.selectors).cells
    model = Cover(fleet, candidates, catalog, workload, request.package)
    plan = model.best(request.best) if request.best else model.fewest()
    served = model.served(plan)
    cells = model.with_companions(model.names[name] for name in plan.variants)
    missing = tuple(dict.fromkeys(row.create for row in served if row.create))
    here = detect_environment(opened.root, opened.settings.org)

    def with_assumption(text: str) -> int:
        return model.machines(served, lambda gpus: any(text in gpu.assumptions for gpu in gpus))

    report = CoverReport(
        machines=fleet.machines,
        entries=len(fleet.kinds),
        different=len(model.groups),
        demands=len(model.demands),
        candidates=len(model.cells),
        not_read=fleet.unread,
        columns_not_used=fleet.unused_columns,
        plan=plan,
        uses=[_use(name, served, model) for name in plan.variants],
        served=served,
        assumptions={text: with_assumption(text) for row in served for text in row.assumptions},
        unknown_gpus=model.machines(
            served, lambda gpus: any(gpu.variant is not None and gpu.gpus is None for gpu in gpus)
        ),
        builds={cell.name: cell.line for cell in cells},
        packages=[package.name for package in model.packages],
        create=build_commands([Variant.parse(missing[0], catalog)], here, also=missing[1:], included=False)
        if missing
        else {},
        curve=model.curve(request.curve) if request.curve else (),
    )
    return report, cells


def _use(name: str, served: Sequence[Served], model: Cover) -> VariantUse:
    return VariantUse(
        name,
        model.machines(served, lambda gpus: any(gpu.variant == name for gpu in gpus)),
        model.machines(served, lambda gpus: any(gpu.variant == name and gpu.slower for gpu in gpus)),
    )


def run(
    *,
    request: CoverRequest,
    write: Annotated[Path | None, Option("Write the plan as a torchsmith.toml.", metavar="FILE")] = None,
    force: Annotated[bool, Option("Replace the file of --write.")] = False,
    json: JsonOption = False,
) -> None:
    """Choose the fewest variants that serve every machine of a fleet, or the best few, proved optimal.

    The candidates are the variants of the workspace, or without one all that can be built. The exit code is 1
    if a machine is not served or an entry of the inventory could not be read.
    """
    if write is not None:
        if write.exists() and not force:
            raise Exists(f"{write} exists already", hint="--force replaces it")
        check_writable(write)
    report, cells = _solve(request)
    if json:
        print_json(report)
    else:
        _print_report(report, limited=request.best is not None)
    if write is not None:
        write_plan(write, cells, f"Chosen by torchsmith cover for {request.fleet.name}.")
    if not json and write is not None:
        warn(f"written: {write}")
        next_step("apply", workspace=write.parent if write.name == "torchsmith.toml" else write)
    elif report.plan.variants:
        next_step("cover", *sys.argv[2:], "--write", "builds/torchsmith.toml", why="as a workspace")
    exit_if(not report.ok)


def write_plan(path: Path, cells: Sequence[Cell], about: str) -> None:
    """Write a plan as a torchsmith.toml. Raises a Problem if it would be read as other builds."""
    if not cells:
        raise Empty("there is no build to write: nothing was chosen")
    text = matrix_text(cells, about)
    try:
        read = {(cell.name, cell.line) for cell in read_as(path, text).cells}
        why = "" if read == {(cell.name, cell.line) for cell in cells} else "it would be read as other builds"
    except Problem as problem:
        why = problem.message
    if why:
        raise Invalid(
            f"not written: torchsmith would not read {path} as these builds: {why}",
            hint="write it beside the catalog folder of the workspace, or add the builds to its include",
        )
    write_atomic(path, text)


def _print_report(report: CoverReport, *, limited: bool) -> None:
    """Print the fleet, the plan, the machines that it does not serve, and the best plans of each size."""
    entries = "1 entry" if report.entries == 1 else f"{report.entries:,} entries"
    say(f"{_machines(report.machines)} in {entries}, of {counted(report.different, 'kind')}")
    say(counted(report.candidates, "candidate"))
    for unread in report.not_read[:MAX_SHOWN]:
        warn(f"not read: {unread.where}: {unread.why}")
    if len(report.not_read) > MAX_SHOWN:
        warn(f"not read: {len(report.not_read) - MAX_SHOWN} more")
    if report.columns_not_used:
        warn(f"columns not used: {', '.join(report.columns_not_used)}")
    size = len(report.plan.variants)
    what = "1 build, which serves" if size == 1 else f"{size} builds, the fewest that serve"
    fewest = f"{what} every machine that any candidate serves"
    best = "the best build" if size == 1 else f"the best {size} builds"
    _print_plan(report, best if limited else fewest)
    _print_shortcomings(report)
    if report.curve:
        _print_curve(report.curve)


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number:,} machines"


def _print_plan(report: CoverReport, title: str) -> None:
    """Print the variants, how many machines they serve, and what they cost."""
    plan, proof = report.plan, report.plan.proof
    if not plan.variants:
        say()
        say("no candidate serves any of these machines", "bold")
        return
    sure = "proved optimal" if proof.optimal else f"not proved, gap {proof.gap:.2%}"
    say()
    say(f"{title} ({sure} in {proof.seconds:.2f} s)", "bold")
    rows = [(use.variant, f"{use.machines:,}", f"{use.slower:,}") for use in report.uses]
    table(("build", "machines", "of these slower"), rows, right=("machines", "of these slower"))
    rest = f"{plan.not_served:,} not served"
    if plan.in_part:
        rest += f" ({plan.in_part:,} of them on some of their GPUs)"
    best = f"{plan.at_their_best:,} as well as possible"
    say(f"{_machines(plan.served)} served: {best}, {plan.slower:,} slower; {rest}")
    say(f"to build, one after the other: {plan.cost}" + " (coarse estimates)" * bool(plan.cost.cores))


def _print_shortcomings(report: CoverReport) -> None:
    """Print the machines that run slower than they could, and those that are not served, with the reason."""
    behind = sorted((row for row in report.served if row.why), key=lambda row: -row.machines)
    slower = [row for row in behind if row.variant]
    lost = [row for row in behind if not row.variant]
    older = [row for row in report.served if row.older]
    for title, rows in (("an older torch", older), ("slower", slower), ("not served", lost)):
        if rows:
            say()
            say(title, "bold")
        for row in rows[:MAX_SHOWN]:
            say(f"  {row.machines:,} x {row.label}: {row.older if rows is older else row.why}")
        if len(rows) > MAX_SHOWN:
            say(f"  {len(rows) - MAX_SHOWN} more (all of them with --json)")
    if report.create:
        say("to make what is missing:")
        print_commands(report.create)
    for text, machines in report.assumptions.items():
        warn(f"assumed for {_machines(machines)}: {text}")
    if report.unknown_gpus:
        warn(f"GPUs of {_machines(report.unknown_gpus)} are unknown: they get a build for the CPU only")


def _print_curve(plans: Sequence[CoverPlan]) -> None:
    """Print what each further variant adds."""
    say()
    say("the best plan of each size", "bold")
    figures, moves = ("builds", "served", "at their best", "hours", "GB kept"), "added (removed)"
    rows = []
    before: set[str] = set()
    for plan in plans:
        names = set(plan.variants)
        change = [*sorted(names - before), *(f"({name})" for name in sorted(before - names))]
        costs = (f"{plan.cost.hours:.1f}", f"{plan.cost.store_gb:.1f}")
        served = (f"{plan.served:,}", f"{plan.at_their_best:,}")
        rows.append([str(len(names)), *served, *costs, " ".join(change)])
        before = names
    table((*figures, moves), rows, right=figures, broken=(moves,))
