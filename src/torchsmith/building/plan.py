"""The plan: what must be built, what is there already, what a binary cache has, what it will cost,
and whether this machine has what it takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from torchsmith.building.job import Job
from torchsmith.building.jobs import jobs_of, jobs_of_recipes, outputs_of
from torchsmith.catalog import Catalog, Estimate
from torchsmith.core.cores import GIB, builds_at_once, usable_cores, usable_memory_gb
from torchsmith.core.problem import Exit, MissingRequirement, Problem
from torchsmith.core.text import counted
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import EvaluationOptions, Listener, evaluate, exit_of, failures_of, reachable
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.store import StoreOptions, dry_run
from torchsmith.nix.tool import Nix
from torchsmith.record import Expected, Past, expect
from torchsmith.record.estimate import hungriest
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import Workspace


@dataclass(frozen=True)
class BuildPlan:
    """What a build would do: its jobs, dependencies first, their costs, and what needs no build."""

    FORMAT: ClassVar = 3
    HAS_SETS: ClassVar = True
    jobs: tuple[Job, ...]
    expected: Mapping[str, Expected]  # by the key of the job
    share: Share
    largest_gb: float  # memory of the largest compile unit
    recipes: tuple[str, ...] = ()  # all that were selected
    present: tuple[str, ...] = ()  # in the store already
    fetched: tuple[str, ...] = ()  # in a binary cache
    broken: Mapping[str, Cause] = field(default_factory=dict)  # recipes that do not evaluate
    download_mib: float = 0.0
    own_store: str = ""  # where results go if the user may not use the machine's store
    problem: Problem | None = None  # memory, disk or builders do not suffice

    @property
    def exit(self) -> Exit:
        return exit_of(self.broken.values())


@dataclass(frozen=True)
class Evaluation:
    """Recipes as derivations: the graph below those that evaluate, and the causes of the others."""

    graph: Graph
    broken: Mapping[str, Cause] = field(default_factory=dict)


def evaluate_recipes(
    nix: Nix,
    recipes: Sequence[RecipeFile],
    options: EvaluationOptions,
    on_event: Listener = lambda _: None,
) -> Evaluation:
    """Evaluate recipes and put their derivations into the store."""
    options = replace(options, cache=ResultCache(), instantiate=True)
    results = reachable(evaluate(recipes, nix, options, on_event=on_event))
    return Evaluation(graph_of(nix, results), failures_of(results))


@dataclass(frozen=True, slots=True)
class Resources:
    """What the user gave a run: jobs side by side, cores and memory in all."""

    jobs: int | None = None
    cores: int | None = None
    memory_gb: float | None = None


def plan_with_nix(
    nix: Nix,
    evaluation: Evaluation,
    catalog: Catalog,
    past: Sequence[Past],
    machine: Machine,
    resources: Resources,
    options: StoreOptions,
) -> BuildPlan:
    """Compare the graph with the store and the binary caches, and estimate what is to be built."""
    graph = evaluation.graph
    needed = dry_run(nix, list(graph.recipes.values()), options)
    jobs = jobs_of(graph, needed.build, catalog)
    settled = {name: path for name, path in graph.recipes.items() if path not in needed.build}
    fetched = [
        name
        for name, path in settled.items()
        if needed.fetch.intersection(outputs_of(graph.derivations[path]))
    ]
    return replace(
        _plan(jobs, catalog, past, machine, resources),
        recipes=tuple(graph.recipes),
        present=tuple(name for name in settled if name not in fetched),
        fetched=tuple(fetched),
        broken=evaluation.broken,
        download_mib=needed.download_mib,
        own_store=str(nix.store_file("/nix/store")) if nix.store else "",
    )


def plan_with_flox(
    recipes: Sequence[RecipeFile],
    workspace: Workspace,
    past: Sequence[Past],
    machine: Machine,
    resources: Resources,
) -> BuildPlan:
    """One job per recipe: what Flox shares or fetches is not known beforehand."""
    catalog = workspace.catalog
    builds = {
        cell.name: catalog.lines[cell.line].build_for(cell.variant.toolkit) for cell in workspace.matrix.cells
    }
    stabilities = {name: build.stability for name, build in builds.items() if build}
    jobs = jobs_of_recipes(recipes, workspace.home, stabilities, catalog)
    plan = _plan(jobs, catalog, past, machine, resources)
    return replace(plan, recipes=tuple(recipe.name for recipe in recipes))


def _plan(
    jobs: Sequence[Job], catalog: Catalog, past: Sequence[Past], machine: Machine, resources: Resources
) -> BuildPlan:
    largest = hungriest(catalog, [job.work for job in jobs])
    share = share_out(machine, largest, resources)
    expected = {job.key: expect(job.work, past, catalog, share.cores) for job in jobs}
    return BuildPlan(tuple(jobs), expected, share, largest.largest_gb if largest else 0.0)


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to build with."""

    cores: int
    memory_gb: float
    store_gb: float  # free in the store
    scratch_gb: float  # free where builds run
    one_disk: bool  # whether those two are the same space


def this_machine(store: Path = Path("/nix/store")) -> Machine:
    """Measured now; a container's own limits count."""
    store, scratch = _existing(store), _existing(Path(os.environ.get("TMPDIR", "/tmp")))
    return Machine(
        usable_cores(),
        usable_memory_gb(),
        shutil.disk_usage(store).free / GIB,
        shutil.disk_usage(scratch).free / GIB,
        store.stat().st_dev == scratch.stat().st_dev,
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


@dataclass(frozen=True, slots=True)
class Share:
    """How a machine is divided: jobs side by side, and the cores of each."""

    jobs: int
    cores: int
    memory_gb: float  # for all jobs together


def share_out(machine: Machine, hungriest: Estimate | None, resources: Resources) -> Share:
    """Divide cores and memory; each job has at most as many compilers as its memory serves."""
    all_cores = resources.cores or machine.cores
    all_memory = resources.memory_gb or machine.memory_gb
    side_by_side = resources.jobs or builds_at_once(all_cores)
    served = hungriest.compilers_within(all_memory / side_by_side) if hungriest else all_cores
    return Share(side_by_side, max(1, min(all_cores // side_by_side, served)), all_memory)


def _size(gb: float) -> str:
    """Gigabytes as text; less than one as megabytes."""
    return f"{gb:.0f} GB" if gb >= 1 else f"{gb * 1024:.1f} MB"


def require_room(machine: Machine, share: Share, expected: Sequence[Expected], largest_gb: float) -> None:
    """Raise MissingRequirement if memory or disk does not suffice."""
    if not expected:
        return
    if share.memory_gb < largest_gb * share.jobs:
        raise MissingRequirement(
            f"memory does not suffice: the largest unit of each of {counted(share.jobs, 'job')} needs "
            f"{largest_gb * share.jobs:.1f} GB, there are {share.memory_gb:.1f} GB",
            hint="fewer --jobs, another builder, or your own largest_gb in catalog/estimates.toml",
        )
    store = sum(cost.store_gb for cost in expected)
    largest = sorted((cost.build_gb for cost in expected), reverse=True)
    scratch = sum(largest[: share.jobs])
    needs = [("for the store", store, machine.store_gb), ("where builds run", scratch, machine.scratch_gb)]
    if machine.one_disk:
        needs = [("for the store and the build folders together", store + scratch, machine.store_gb)]
    for place, need, free in needs:
        if need > free:
            raise MissingRequirement(
                f"disk does not suffice: {_size(need)} are needed {place}, {_size(free)} are free",
                hint="build fewer at once, collect garbage, or put your own figures into "
                "catalog/estimates.toml",
            )
