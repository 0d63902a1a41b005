"""The plan: what must be built, what is there already, what a binary cache has, and what it will cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsmith.build.job import Job
from torchsmith.build.jobs import jobs_of, jobs_of_recipes
from torchsmith.build.machine import Machine, Share, share_out
from torchsmith.catalog import Catalog
from torchsmith.edge.problem import CannotBuild
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.evaluate import Listener, evaluate, with_means
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.store import StoreOptions, outlook
from torchsmith.nix.tool import Nix
from torchsmith.record import Expected, Past, expect
from torchsmith.record.estimate import memory_per_core
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import Workspace


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
    recipes: tuple[str, ...] = ()  # all that were asked for
    present: tuple[str, ...] = ()  # in the store already
    fetched: tuple[str, ...] = ()  # in a binary cache
    broken: tuple[Broken, ...] = ()
    download_mib: float = 0.0
    graph: Graph | None = None

    @property
    def seconds_of_work(self) -> float:
        return sum(one.seconds for one in self.expected.values())

    def of(self, job: Job) -> Expected:
        return self.expected[job.key]


@dataclass(frozen=True)
class Evaluation:
    """Recipes as derivations: the graph below those that evaluate, and the others with their reasons."""

    graph: Graph
    broken: tuple[Broken, ...] = ()


def evaluate_recipes(
    nix: Nix,
    recipes: Sequence[RecipeFile],
    trees: Mapping[str, Path],
    tell: Listener = lambda _: None,
    addresses: Sequence[str] = (),
    phases: Mapping[str, str] | None = None,
) -> Evaluation:
    """Evaluate recipes, some perhaps with another build phase, and put their derivations into the store."""
    results = evaluate(
        recipes,
        nix,
        trees=trees,
        addresses=addresses,
        cache=ResultCache(),
        tell=tell,
        instantiate=True,
        phases=phases,
    )
    with_means(results)
    broken = tuple(
        Broken(result.name, str(CannotBuild(result.cause.message, where=result.cause.where)))
        for result in results
        if result.cause is not None
    )
    return Evaluation(graph_of(nix, results), broken)


@dataclass(frozen=True, slots=True)
class Means:
    """What the user gave a run: jobs side by side, cores and memory in all."""

    jobs: int | None = None
    cores: int | None = None
    memory_gb: float | None = None

    def over(self, jobs: int | None, cores: int | None, memory_gb: float | None) -> Means:
        """These, where nothing else is given."""
        return Means(
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
    means: Means,
    options: StoreOptions,
) -> BuildPlan:
    """Hold the graph against the store and the binary caches, and estimate what is left."""
    graph = evaluation.graph
    found = outlook(nix, list(graph.recipes.values()), options)
    jobs = jobs_of(graph, found.build, catalog)
    settled = {name: path for name, path in graph.recipes.items() if path not in found.build}
    outputs = {
        name: {output.path for output in graph.derivations[path].outputs.values()}
        for name, path in settled.items()
    }
    return replace(
        _plan(jobs, catalog, past, machine, means),
        recipes=tuple(graph.recipes),
        present=tuple(name for name in settled if not outputs[name] & found.fetch),
        fetched=tuple(name for name in settled if outputs[name] & found.fetch),
        broken=evaluation.broken,
        download_mib=found.download_mib,
        graph=graph,
    )


def plan_with_flox(
    recipes: Sequence[RecipeFile],
    workspace: Workspace,
    root: Path,
    past: Sequence[Past],
    machine: Machine,
    means: Means,
) -> BuildPlan:
    """One job a recipe: what Flox shares or fetches, it does not tell beforehand."""
    catalog = workspace.catalog
    builds = {
        cell.name: catalog.lines[cell.line].build_for(cell.variant.cuda) for cell in workspace.matrix.cells
    }
    stabilities = {name: build.stability for name, build in builds.items() if build}
    jobs = jobs_of_recipes(recipes, root, stabilities, catalog)
    plan = _plan(jobs, catalog, past, machine, means)
    return replace(plan, recipes=tuple(recipe.name for recipe in recipes))


def _plan(
    jobs: Sequence[Job], catalog: Catalog, past: Sequence[Past], machine: Machine, means: Means
) -> BuildPlan:
    per_core = memory_per_core(catalog, [job.work for job in jobs])
    share = share_out(machine, per_core, means.jobs, means.cores, means.memory_gb)
    expected = {job.key: expect(job.work, past, catalog, share.cores) for job in jobs}
    return BuildPlan(tuple(jobs), expected, share, per_core)
