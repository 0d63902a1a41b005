"""The plan: what must be built, what is there already, what a binary cache has, what it will cost,
and whether this machine has what it takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsmith.building.job import Job
from torchsmith.building.jobs import jobs_of, jobs_of_recipes, outputs_of
from torchsmith.catalog import Catalog
from torchsmith.core.problem import CannotBuild, MissingRequirement
from torchsmith.core.text import counted
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.evaluate import EvaluationOptions, Listener, evaluate, reachable
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.store import StoreOptions, dry_run
from torchsmith.nix.tool import Nix
from torchsmith.record import Expected, Past, expect
from torchsmith.record.estimate import memory_per_core
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import Workspace

GIB = 1 << 30
TYPICAL_CORES = 16  # of one build: more compilers than this gain little


@dataclass(frozen=True, slots=True)
class Broken:
    """A recipe that does not evaluate, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class BuildPlan:
    """Jobs in the order of their dependencies, and what stands beside them."""

    jobs: tuple[Job, ...]
    expected: Mapping[str, Expected]
    share: Share
    per_core_gb: float
    recipes: tuple[str, ...] = ()  # all that were selected
    present: tuple[str, ...] = ()  # in the store already
    fetched: tuple[str, ...] = ()  # in a binary cache
    broken: tuple[Broken, ...] = ()
    download_mib: float = 0.0
    graph: Graph | None = None

    @property
    def builds_below(self) -> int:
        """Builds below the recipes, downloads left out."""
        if self.graph is None:
            return 0
        known = self.graph.derivations
        return sum(not known[path].fixed for path in self.graph.users if path in known)


@dataclass(frozen=True)
class Evaluation:
    """Recipes as derivations: the graph below those that evaluate, and the others with their reasons."""

    graph: Graph
    broken: tuple[Broken, ...] = ()


def evaluate_recipes(
    nix: Nix,
    recipes: Sequence[RecipeFile],
    options: EvaluationOptions,
    tell: Listener = lambda _: None,
) -> Evaluation:
    """Evaluate recipes and put their derivations into the store."""
    options = replace(options, cache=ResultCache(), instantiate=True)
    results = reachable(evaluate(recipes, nix, options, tell=tell))
    broken = tuple(
        Broken(result.name, str(CannotBuild(result.cause.message, where=result.cause.where)))
        for result in results
        if result.cause is not None
    )
    return Evaluation(graph_of(nix, results), broken)


@dataclass(frozen=True, slots=True)
class Resources:
    """What the user gave a run: jobs side by side, cores and memory in all."""

    jobs: int | None = None
    cores: int | None = None
    memory_gb: float | None = None

    def over(self, jobs: int | None, cores: int | None, memory_gb: float | None) -> Resources:
        """These, where nothing else is given."""
        return Resources(
            self.jobs if jobs is None else jobs,
            self.cores if cores is None else cores,
            self.memory_gb if memory_gb is None else memory_gb,
        )


def plan_with_nix(
    nix: Nix,
    evaluation: Evaluation,
    catalog: Catalog,
    past: Sequence[Past],
    machine: Machine,
    resources: Resources,
    options: StoreOptions,
) -> BuildPlan:
    """Hold the graph against the store and the binary caches, and estimate what is left."""
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
        graph=graph,
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
    per_core = memory_per_core(catalog, [job.work for job in jobs])
    share = share_out(machine, per_core, resources)
    expected = {job.key: expect(job.work, past, catalog, share.cores) for job in jobs}
    return BuildPlan(tuple(jobs), expected, share, per_core)


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to build with."""

    cores: int
    memory_gb: float
    store_gb: float  # free where the store lies
    scratch_gb: float  # free where builds run
    one_disk: bool  # whether those two are the same space


def this_machine(store: Path = Path("/nix/store")) -> Machine:
    """Measured now; a container's own limits count."""
    store, scratch = _existing(store), _existing(Path(os.environ.get("TMPDIR", "/tmp")))
    return Machine(
        len(os.sched_getaffinity(0)),
        min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _container_memory()) / GIB,
        shutil.disk_usage(store).free / GIB,
        shutil.disk_usage(scratch).free / GIB,
        store.stat().st_dev == scratch.stat().st_dev,
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _container_memory() -> float:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return float("inf")
    return float(text) if text.isdigit() else float("inf")


@dataclass(frozen=True, slots=True)
class Share:
    """How a machine is divided: jobs side by side, and the cores of each."""

    jobs: int
    cores: int
    memory_gb: float  # for all jobs together


def share_out(machine: Machine, per_core_gb: float, resources: Resources) -> Share:
    """Divide cores and memory; each job has at most as many compilers as its memory serves."""
    all_cores = resources.cores or machine.cores
    all_memory = resources.memory_gb or machine.memory_gb
    side_by_side = resources.jobs or max(1, all_cores // TYPICAL_CORES)
    served = int(all_memory / side_by_side / per_core_gb) if per_core_gb else all_cores
    return Share(side_by_side, max(1, min(all_cores // side_by_side, served)), all_memory)


def _size(gb: float) -> str:
    """Gigabytes as text; less than one as megabytes."""
    return f"{gb:.0f} GB" if gb >= 1 else f"{gb * 1024:.1f} MB"


def require_room(machine: Machine, share: Share, expected: Sequence[Expected], per_core_gb: float) -> None:
    """Refuse, with the numbers, where memory or disk cannot suffice."""
    if not expected:
        return
    if share.memory_gb < per_core_gb * share.jobs:
        raise MissingRequirement(
            f"memory does not suffice: one compiler for each of {counted(share.jobs, 'job')} needs "
            f"{per_core_gb * share.jobs:.1f} GB, there are {share.memory_gb:.1f} GB",
            hint="fewer --jobs, another builder, or your own memory_gb in catalog/estimates.toml",
        )
    store = sum(cost.store_gb for cost in expected)
    largest = sorted((cost.build_gb for cost in expected), reverse=True)
    scratch = sum(largest[: share.jobs])
    if machine.one_disk:
        needs = [("for the store and the build folders together", store + scratch, machine.store_gb)]
    else:
        needs = [
            ("for the store", store, machine.store_gb),
            ("where builds run", scratch, machine.scratch_gb),
        ]
    for place, need, free in needs:
        if need > free:
            raise MissingRequirement(
                f"disk does not suffice: {_size(need)} are needed {place}, {_size(free)} are free",
                hint="build fewer cells at once, collect garbage, or lay your own figures over "
                "catalog/estimates.toml if you know better",
            )
