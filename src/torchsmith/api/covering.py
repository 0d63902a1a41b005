"""Which few builds suit a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog.axes import DriverVersion
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.machine_options import PackagesOption, WorkloadOption
from torchsmith.cli.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.core.problem import MissingRequirement, by_name
from torchsmith.host.bill import Bill
from torchsmith.host.commands import build_commands, stand_here
from torchsmith.host.cover import Cover, FleetPlan, Served
from torchsmith.host.fleet import Unread, read_fleet
from torchsmith.host.matrix_file import write_matrix
from torchsmith.host.solve import Proof
from torchsmith.matrix import Cell, Variant
from torchsmith.workspace.load import open_workspace, read_as


@dataclass(frozen=True, kw_only=True)
class CoverRequest:
    """Which few variants serve a fleet."""

    fleet: Annotated[
        Path,
        Argument(
            "A CSV or JSON file (name, count, weight, system, cpu, isa, features, gpu, sm, driver),"
            " what scontrol, sinfo, pbsnodes, kubectl or Ansible print, a folder of reports, or sample.",
            metavar="FLEET",
        ),
    ]
    selectors: Selectors = ()
    best: Annotated[int, Option("The best plan with this many variants.", min=0)] = 0
    must: Annotated[tuple[str, ...], Option("A variant that must be chosen.")] = ()
    must_not: Annotated[tuple[str, ...], Option("A variant that must not be chosen.")] = ()
    package: PackagesOption = ()
    workload: WorkloadOption = "general"
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    curve: Annotated[int, Option("Show best plans up to this size.", min=0)] = 0


class CoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Variants, whom they serve and what they cost."""

    variants: Sequence[str]
    at_their_best: int
    slower: int
    not_served: int
    in_part: int  # those not served on all of their GPUs, but on some
    hours: float
    cores: int  # that the hours are for
    memory_gb: float
    build_gb: float
    store_gb: float
    proof: Proof

    @property
    def served(self) -> int:
        return self.at_their_best + self.slower

    @property
    def cost(self) -> Bill:
        return Bill(self.hours, self.cores, self.memory_gb, self.build_gb, self.store_gb)


class VariantUse(msgspec.Struct, frozen=True):
    """How many machines get a variant, and how many of them run slower with it than they could."""

    variant: str
    machines: int
    slower: int


class ServedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that are alike, and the variant that they get."""

    label: str
    machines: int
    weight: float
    kinds: Sequence[str]
    gpus: Sequence[str] | None
    driver: DriverVersion | None
    variant: str | None
    why: str  # they have no better one
    create: str  # the cell that would serve them, where this matrix has none that does
    assumed: Sequence[str]


class CoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for a fleet, machine by machine, and with --curve the best plan of each size."""

    FORMAT: ClassVar = 2
    machines: int
    entries: int
    different: int
    demands: int
    candidates: int
    not_read: Sequence[Unread]
    columns_not_used: Sequence[str]
    plan: CoverPlan
    uses: Sequence[VariantUse]
    served: Sequence[ServedRow]
    assumed: dict[str, int]  # what must be true that the inventory does not say, and for how many machines
    unknown_gpus: int  # machines that get a build for the CPU because nobody knows their GPUs
    builds: dict[str, str]  # the variants with those of other packages, and the line of each
    packages: Sequence[str]
    not_estimated: Sequence[str]  # packages whose costs nobody knows
    create: dict[str, str]  # the commands that make the missing cells, by tool
    curve: Sequence[CoverPlan]

    @property
    def ok(self) -> bool:
        return not self.plan.not_served and not self.not_read


def cover(request: CoverRequest) -> CoverReport:
    """The fewest variants that serve every machine, or the best `best` of them, with the proof.
    Raises MissingRequirement, before anything is read, if the solver is not installed."""
    if find_spec("highspy") is None:
        hint = "pip install highspy (the extra [fleet])"
        raise MissingRequirement("cover needs the solver highspy", hint=hint)
    opened = open_workspace(request.workspace, request.profile, alone="every")
    catalog, cells = opened.catalog, opened.select(request.selectors).cells
    fleet = read_fleet(request.fleet, catalog)
    workload = by_name("workload", request.workload, catalog.workloads)
    model = Cover(fleet, cells, catalog, workload, request.must, request.must_not, request.package)
    plan = model.best(request.best) if request.best else model.fewest()
    names = [package.name for package in model.packages]
    missing = {
        cell.name: cell.variant
        for served in plan.served
        if served.cell is None and (cell := model.to_make(served.demand))
    }
    here = stand_here(opened.root, opened.settings.org)
    return CoverReport(
        machines=fleet.machines,
        entries=len(fleet.kinds),
        different=len(model.groups),
        demands=len(model.demands),
        candidates=len(model.cells),
        not_read=fleet.unread,
        columns_not_used=fleet.unused_columns,
        plan=_plan(plan),
        uses=[_use(plan, cell) for cell in plan.cells],
        served=[_served(served, model) for served in plan.served],
        assumed={text: _assuming(plan, text) for served in plan.served for text in served.assumed},
        unknown_gpus=plan.machines(
            lambda all_: any(served.cell and served.demand.host.sms is None for served in all_)
        ),
        builds={cell.name: cell.line for cell in model.with_companions(plan.cells)},
        packages=names,
        not_estimated=[
            name for name in names if any(unknown.startswith(f"{name}-") for unknown in plan.bill.unknown)
        ],
        create=build_commands(next(iter(missing.values())), here, also=tuple(missing)[1:], included=False)
        if missing
        else {},
        curve=[_plan(best) for best in model.curve(request.curve)] if request.curve else (),
    )


def _plan(plan: FleetPlan) -> CoverPlan:
    return CoverPlan(
        variants=[cell.name for cell in plan.cells],
        at_their_best=plan.best,
        slower=plan.slower,
        not_served=plan.unserved,
        in_part=plan.in_part,
        hours=round(plan.bill.hours, 2),
        cores=plan.bill.cores,
        memory_gb=plan.bill.memory_gb,
        build_gb=plan.bill.build_gb,
        store_gb=round(plan.bill.store_gb, 2),
        proof=plan.proof,
    )


def _use(plan: FleetPlan, cell: Cell) -> VariantUse:
    return VariantUse(
        cell.name,
        plan.machines(lambda all_: any(served.cell is cell for served in all_)),
        plan.machines(lambda all_: any(served.cell is cell and served.slower for served in all_)),
    )


def _assuming(plan: FleetPlan, text: str) -> int:
    return plan.machines(lambda all_: any(text in served.assumed for served in all_))


def _served(served: Served, model: Cover) -> ServedRow:
    demand, cell = served.demand, served.cell
    missing = model.to_make(demand) if cell is None else None
    why = model.why_slower(served) if served.slower else model.why_unserved(demand) if cell is None else ""
    return ServedRow(
        label=demand.label,
        machines=demand.machines,
        weight=demand.weight,
        kinds=demand.kinds,
        gpus=None if demand.host.sms is None else [*map(str, demand.host.archs)],
        driver=demand.host.driver,
        variant=cell.name if cell else None,
        why=why,
        create=missing.name if missing else "",
        assumed=served.assumed,
    )


def write_plan(path: Path, report: CoverReport, request: CoverRequest, *, replace: bool = False) -> None:
    """Write a plan as a torchsmith.toml. Raises a Problem where that would be read as anything else."""
    catalog = open_workspace(request.workspace, request.profile, alone="every").catalog
    cells = [Cell(Variant.parse(name, catalog), line) for name, line in report.builds.items()]
    about = f"Chosen by torchsmith cover for {request.fleet.name}."
    write_matrix(path, cells, about, read_as, replace=replace)
