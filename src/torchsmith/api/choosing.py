"""Which build suits a machine, and which builds suit a fleet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from torchsmith.api.fields import Argument, Option
from torchsmith.api.host_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.api.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.catalog import Catalog, Sm
from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import Conflict, Incomplete, by_name
from torchsmith.core.words import grouped, some_of
from torchsmith.host import pick as host
from torchsmith.host.commands import Environment, flox_manifest
from torchsmith.host.facts import Note
from torchsmith.host.resolve import UNKNOWN, Capability
from torchsmith.host.stock import Stock, rocm_wheel, stock_wheel
from torchsmith.matrix import Cell, Rejected, assess
from torchsmith.matrix.describe import newer_lines
from torchsmith.workspace.load import Workspace, open_workspace

if TYPE_CHECKING:
    from torchsmith.host.cover import Cover, FleetPlan

FEW = 3  # findings and near misses that a person reads


@dataclass(frozen=True, kw_only=True)
class PickRequest:
    """Which variant suits a machine: this one, or one that reports or names describe."""

    selectors: Selectors = ()
    machine: MachineOptions = field(default_factory=MachineOptions)
    workload: WorkloadOption = "general"
    package: PackagesOption = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None

    def opened(self) -> Workspace:
        """The workspace whose variants are candidates; without one, all that can be built."""
        return open_workspace(self.workspace, self.profile, alone="wide")


def pick(request: PickRequest | None = None, opened: Workspace | None = None) -> host.Pick:
    """Rank the variants for a machine, and choose. Raises a Problem for a word that nobody knows.

    `opened`: the workspace, for whoever has opened it already.
    """
    request = request or PickRequest()
    opened = opened or request.opened()
    catalog = opened.catalog
    facts = request.machine.facts(catalog)
    # Of a matrix of ours torch's part is enough.
    whole = bool(opened.root or request.selectors or request.package)
    cells = opened.select(request.selectors or ()).cells if whole else opened.cells_of(catalog.torch)
    workload = by_name("workload", request.workload, catalog.workloads)
    found = host.pick(facts, cells, catalog, workload, request.package or (), None if whole else opened.has)
    if found.host.conflict:
        raise Conflict(found.host.conflict, hint="the product decides the system: correct the other one")
    return found


def why_older(cell: Cell, catalog: Catalog) -> str:
    """What releases newer than a cell's torch lack; empty where it is the newest."""
    lines = [line for line in catalog.lines.values() if line.torch and line.flavor == cell.variant.flavor]
    newest = max(lines, key=lambda line: version_key(line.torch), default=None)
    own = catalog.lines.get(cell.line)
    if newest is None or own is None or not own.torch or version_key(own.torch) >= version_key(newest.torch):
        return ""
    decision = assess(cell.variant, catalog, newest.name)
    reasons = decision.reasons if isinstance(decision, Rejected) else decision.warnings
    why = reasons[0].text if reasons else "this matrix does not ask for it"
    lacks = grouped(
        (lack.partition(";")[0].replace(f" {torch}", ""), torch)
        for torch, lack in newer_lines(own, catalog).items()
    )
    newer = [f"{', '.join(releases)}: missing {lack}" for lack, releases in lacks.items()]
    return f"torch {own.torch}; newer releases: {'; '.join(newer) or f'{newest.torch}: {why}'}"


def audit_findings(recipe: Path, here: Environment) -> list[str]:
    """What the audit has against a recipe that lies in the workspace: errors and warnings, the first few."""
    if here.folder is None or not recipe.exists():
        return []
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import audit

    found = audit((recipe,), Path(here.folder), jobs=1).of(Severity.ERROR, Severity.WARNING)
    findings = [f"{finding.rule} {finding.message}" for finding in found]
    if len(findings) <= FEW:
        return findings
    return [*findings[: FEW - 1], f"{len(findings) - FEW + 1} more: torchsmith audit"]


def where_built(cell: Cell, here: Environment, catalog: Catalog) -> Environment:
    """The tools that can build a cell: one whose packages come from Flox' catalog has no nixpkgs for Nix."""
    line = catalog.lines.get(cell.line)
    build = line.build_for(cell.variant.cuda) if line else None
    return msgspec.structs.replace(here, nix=False) if build and build.style == "flox" else here


def nearest_misses(pick: host.Pick) -> list[tuple[str, str]]:
    """Misses that concern what is not served: GPU builds for a GPU, any build for a CPU."""
    own = [miss for miss in pick.ranking.misses if miss.variant.sm in pick.choice.unserved]
    found = grouped(
        ("; ".join(map(str, miss.reasons)), miss.variant.name)
        for miss in own or pick.ranking.misses
        if not pick.choice.unserved or miss.variant.sm
    )
    return [(some_of(names), why) for why, names in found.items()][:FEW]


def is_about_gpu(note: Note) -> bool:
    """Whether a note is about a GPU that was seen and not understood."""
    return (
        "shows an NVIDIA GPU" in note.text or "it is taken from" in note.text or note.text.endswith(UNKNOWN)
    )


def title_of(sm: Sm, catalog: Catalog) -> str:
    """An architecture with the words for it."""
    known, old = catalog.gpus.get(sm), catalog.retired.get(sm)
    title = known.title if known else old.generation if old else ""
    return f"{sm} ({title})" if title else str(sm)


def stock_wheels(machine: Capability, catalog: Catalog) -> list[Stock]:
    """PyTorch's own wheels for a machine: one for each maker of its GPUs, else the one for the CPU."""
    rocm, stock = rocm_wheel(machine, catalog), stock_wheel(machine, catalog)
    if rocm and not machine.sms:
        return [rocm]
    return [one for one in (stock, rocm) if one]


def manifest_of(one: host.Assigned, pick: host.Pick, catalog: Catalog, org: str) -> str:
    """What somebody puts into the manifest.toml of a Flox environment to have the cell."""
    own = tuple(name for name in pick.companions if name.endswith(one.fit.variant.cell))
    return flox_manifest(one.fit.variant, own, org, catalog.isas[one.fit.variant.isa].platform)


def first_manifest(pick: host.Pick, catalog: Catalog, org: str) -> str:
    """The manifest of the first choice; a Problem where no organisation is known."""
    if not org:
        hint = 'give --org, or write org = "..." into torchsmith.toml'
        raise Incomplete("no Flox organisation is known, so nothing can be installed from one", hint=hint)
    return "".join(manifest_of(one, pick, catalog, org) for one in pick.choice.variants[:1])


def write_missing(path: Path, pick: host.Pick, catalog: Catalog) -> None:
    """Write what is missing as a torchsmith.toml."""
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import read_as

    write_matrix(path, pick.missing_cells(catalog), "What torchsmith pick found missing.", read_as)


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
    best: Annotated[int, Option("The best plan with so many variants.", min=0)] = 0
    must: Annotated[tuple[str, ...], Option("A variant that must be chosen.")] = ()
    must_not: Annotated[tuple[str, ...], Option("A variant that must not be chosen.")] = ()
    package: PackagesOption = ()
    workload: WorkloadOption = "general"
    workspace: WorkspaceOption = None
    profile: ProfileOption = None


def cover_of(request: CoverRequest) -> Cover:
    """The fleet, read, and the candidates for it."""
    from torchsmith.host.cover import Cover
    from torchsmith.host.fleet import read_fleet

    opened = open_workspace(request.workspace, request.profile, alone="wide")
    catalog, cells = opened.catalog, opened.select(request.selectors or ()).cells
    machines = read_fleet(request.fleet, catalog)
    workload = by_name("workload", request.workload, catalog.workloads)
    return Cover(machines, cells, catalog, workload, request.must, request.must_not, request.package or ())


def cover(request: CoverRequest) -> FleetPlan:
    """The fewest variants that serve every machine, or the best `best` of them, with the proof."""
    found = cover_of(request)
    return found.best(request.best) if request.best else found.fewest()
