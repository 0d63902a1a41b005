"""Which build suits a machine, and which builds suit a fleet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.host_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.api.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.core.problem import Conflict, by_name
from torchsmith.host import pick as host
from torchsmith.workspace.load import Workspace, open_workspace

if TYPE_CHECKING:
    from torchsmith.host.cover import Cover, FleetPlan


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
