"""How long the whole matrix takes on some builders: our order, Nix' own, and the bound that none can beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchsmith.build.farm import Builder
from torchsmith.build.job import Job
from torchsmith.build.jobs import jobs_of
from torchsmith.build.schedule import (
    Chains,
    Slot,
    Task,
    longest_chain_first,
    lower_bound,
    nix_order,
    simulate,
)
from torchsmith.catalog import Catalog
from torchsmith.edge.problem import CannotBuild
from torchsmith.edge.words import counted
from torchsmith.nix.derivation import name_of
from torchsmith.nix.graph import Graph
from torchsmith.record import Past, expect

CORES = 16  # of a simulated builder, as the catalog's estimates have
X86, ARM = "x86_64-linux", "aarch64-linux"


@dataclass(frozen=True, slots=True)
class Simulated:
    """One farm: the time of both orders in hours, and the bounds by system."""

    farm: str
    ours: float
    nix: float
    bounds: dict[str, float]
    bound: float  # the largest of them
    gap: float  # how much longer our order takes
    nix_gap: float


def simulated_jobs(graph: Graph, catalog: Catalog) -> list[Job]:
    """Everything that takes long, built from nothing; the rest comes from a binary cache."""
    return jobs_of(graph, graph.derivations.keys(), catalog, bundles=False)


def tasks_of(jobs: Sequence[Job], catalog: Catalog, past: Sequence[Past]) -> list[Task]:
    """Jobs with their expected durations, named as Nix names them."""
    return [
        Task(job.key, name_of(job.key), expect(job.work, past, catalog, CORES).seconds, job.system, job.needs)
        for job in jobs
    ]


def farms(tasks: Sequence[Task], counts: Sequence[int]) -> dict[str, list[Slot]]:
    """So many builders for everything; with ARM cells also so many with ARM builders beside them."""
    systems = frozenset(task.system for task in tasks)
    everywhere = {count: [Slot(f"builder {i}", systems) for i in range(count)] for count in counts}
    found = {counted(count, "builder"): slots for count, slots in everywhere.items()}
    if systems == {X86, ARM}:
        for count in counts:
            arm = max(1, count // 8)
            slots = [Slot(f"x86 {i}", frozenset((X86,))) for i in range(count)]
            slots += [Slot(f"arm {i}", frozenset((ARM,))) for i in range(arm)]
            found[f"{count} x86 + {arm} ARM"] = slots
    return found


def farm_of(builders: Sequence[Builder]) -> list[Slot]:
    """Builders as places for jobs."""
    return [
        Slot(f"{builder.name} {number}", builder.systems, builder.speed)
        for builder in builders
        for number in range(builder.max_jobs)
    ]


def simulate_farms(
    tasks: Sequence[Task], counts: Sequence[int], builders: Sequence[Builder] = ()
) -> list[Simulated]:
    """Both orders on each farm, against the bound; first on the workspace's own builders."""
    all_farms = farms(tasks, counts)
    if builders:
        own = farm_of(builders)
        lacking = {task.system for task in tasks} - {system for slot in own for system in slot.systems}
        if lacking:
            raise CannotBuild(
                f"no builder of the workspace builds for {', '.join(sorted(lacking))}",
                hint="add one to [[builder]], or choose recipes of the systems that it has",
            )
        all_farms = {"your builders": own, **all_farms}
    chains = Chains(tasks)
    rows = []
    for name, slots in all_farms.items():
        ours = simulate(tasks, slots, longest_chain_first(chains)).makespan / 3600
        theirs = simulate(tasks, slots, nix_order).makespan / 3600
        bounds = {system: seconds / 3600 for system, seconds in lower_bound(tasks, slots).items()}
        bound = max(bounds.values(), default=0.0)
        gap, nix_gap = (hours / bound - 1 if bound else 0.0 for hours in (ours, theirs))
        rows.append(Simulated(name, ours, theirs, bounds, bound, gap, nix_gap))
    return rows
