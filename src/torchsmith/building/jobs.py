"""From the graph of derivations to jobs: recipes and long builds on their own, small ones folded in."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

from torchsmith.building.job import Job
from torchsmith.catalog import TORCH, Catalog
from torchsmith.core.text import grouped, some_of
from torchsmith.matrix import Variant
from torchsmith.matrix.estimate import estimate_of
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.graph import Graph, Members, kind_of
from torchsmith.nix.targets import gpu_targets
from torchsmith.record.estimate import OTHER
from torchsmith.workspace.checkout import RecipeFile


def jobs_of(graph: Graph, to_build: Collection[str], catalog: Catalog) -> list[Job]:
    """The jobs that build `to_build`, dependencies first."""
    named = grouped((path, name) for name, path in graph.recipes.items())
    wanted = {path for path in to_build if path in graph.derivations}
    explicit = {path for path in wanted if path in named or kind_of(graph.derivations[path], catalog)}
    above = _nearest_above(graph, wanted, explicit)
    home = _homes(explicit, wanted, above)
    members = grouped((home[path], path) for path in _dependencies_first(graph, wanted) if path in home)
    jobs = [_job(key, paths, graph, named.get(key, []), catalog) for key, paths in members.items()]
    jobs = [replace(job, needs=_needs(job.key, members, graph, home)) for job in jobs]
    return _distinct_names(_ordered(jobs))


def _nearest_above(graph: Graph, wanted: set[str], explicit: set[str]) -> dict[str, tuple[str, ...]]:
    """For each build the explicit jobs that need it without another explicit job in between."""
    order = list(reversed(_dependencies_first(graph, wanted)))
    bits = {path: 1 << at for at, path in enumerate(drv for drv in order if drv in explicit)}
    masks: dict[str, int] = defaultdict(
        int
    )  # bit sets of jobs: nearly all need a build that is low in the graph
    for path in order:
        passed_on = bits.get(path) or masks[path]
        for below in graph.derivations[path].inputs:
            if below in wanted:
                masks[below] |= passed_on
    members = Members(list(bits))
    return {path: members.of(mask) for path, mask in masks.items()}


def _homes(explicit: set[str], wanted: set[str], above: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The job that each build belongs to: itself, the only job that needs it, or a bundle for several."""
    home = {path: path for path in explicit}
    bundles: dict[int, str] = {}  # by the identity of the users' tuple: equal sets are one object
    for path in wanted - explicit:
        users = above.get(path, ())
        if len(users) == 1:
            home[path] = users[0]
        elif users:
            if id(users) not in bundles:
                digest = hashlib.sha256("\n".join(sorted(users)).encode()).hexdigest()[:12]
                bundles[id(users)] = f"shared-{digest}"
            home[path] = bundles[id(users)]
    return home


def _needs(
    key: str, members: Mapping[str, Sequence[str]], graph: Graph, home: Mapping[str, str]
) -> frozenset[str]:
    below = (home.get(drv) for path in members[key] for drv in graph.derivations[path].inputs)
    return frozenset(job for job in below if job is not None and job != key)


def _job(key: str, paths: Sequence[str], graph: Graph, recipes: Sequence[str], catalog: Catalog) -> Job:
    if key not in graph.derivations:
        own = [graph.derivations[path] for path in reversed(paths)]
        name = some_of([derivation.name for derivation in own])
        return Job(key, name, tuple(paths), OTHER, False, own[0].system, size=len(paths))
    derivation = graph.derivations[key]
    kind = kind_of(derivation, catalog) or OTHER
    gpus = gpu_targets(derivation, catalog)
    job = Job(
        key,
        recipes[0] if recipes else derivation.name,
        (key,),
        kind,
        bool(gpus) if kind == TORCH else kind != OTHER,
        derivation.system,
        recipes=tuple(recipes),
        outputs=outputs_of(derivation),
        features=frozenset(derivation.env.get("requiredSystemFeatures", "").split()),
        size=len(paths),
        gpus=len(gpus) or 1,
    )
    variant = variant_of(recipes, catalog)
    if variant is None:
        return job
    return replace(_of_variant(job, variant, catalog), repo=variant.package.folder)


def _of_variant(job: Job, variant: Variant, catalog: Catalog) -> Job:
    return replace(
        job,
        package=variant.package.name,
        gpu=variant.toolkit is not None,
        isa=variant.isa,
        estimated=estimate_of(variant, catalog) is not None,
    )


def variant_of(recipes: Iterable[str], catalog: Catalog) -> Variant | None:
    """The variant that the first of these recipes that names one is."""
    names = (Variant.try_parse(name.rpartition("/")[2], catalog) for name in recipes)
    return next(filter(None, names), None)


def recipes_above(jobs: Iterable[Job], name: str) -> list[str]:
    """The recipes that need a job that is not a recipe itself; `jobs` are ordered by their dependencies."""
    needing: set[str] = set()
    recipes: list[str] = []
    for job in jobs:
        if job.name == name:
            if job.recipes:
                return []
            needing.add(job.key)
        elif job.needs & needing:
            needing.add(job.key)
            recipes += job.recipes
    return recipes


def outputs_of(derivation: Derivation) -> tuple[str, ...]:
    """Output paths, `out` first."""
    outputs = sorted(derivation.outputs.items(), key=lambda item: item[0] != "out")
    return tuple(output.path for _, output in outputs if output.path)


def _dependencies_first(graph: Graph, wanted: set[str]) -> list[str]:
    below = {path: sorted(wanted.intersection(graph.derivations[path].inputs)) for path in sorted(wanted)}
    return list(TopologicalSorter(below).static_order())


def _ordered(jobs: Iterable[Job]) -> list[Job]:
    """Dependencies before what needs them, otherwise by name."""
    known = {job.key: job for job in jobs}
    order = TopologicalSorter({job.key: job.needs & known.keys() for job in known.values()})
    order.prepare()
    ordered: list[Job] = []
    while order.is_active():
        ready = order.get_ready()
        ordered += sorted((known[key] for key in ready), key=lambda job: (job.name, job.key))
        order.done(*ready)
    return ordered


def _distinct_names(jobs: Sequence[Job]) -> list[Job]:
    """Jobs with unique names: equal names get their system, and if these are equal too, their key."""
    for suffix in (lambda job: job.system, lambda job: re.sub(r"^.*/|shared-", "", job.key)[:8]):
        counts = Counter(job.name for job in jobs)
        jobs = [
            replace(job, name=f"{job.name} ({suffix(job)})") if counts[job.name] > 1 else job for job in jobs
        ]
    return list(jobs)


def jobs_of_recipes(
    recipes: Sequence[RecipeFile], root: Path, stabilities: Mapping[str, str], catalog: Catalog
) -> list[Job]:
    """Jobs without derivations, for Flox: one per recipe, a companion after its torch if selected too."""
    names = frozenset(recipe.name for recipe in recipes)
    jobs = []
    for recipe in recipes:
        job = Job(
            recipe.name,
            recipe.name,
            (recipe.attr,),
            OTHER,
            False,
            recipe.system,
            recipes=(recipe.name,),
            repo=os.path.relpath(recipe.repo.resolve(), root.resolve()),
            stability=stabilities.get(recipe.name, ""),
        )
        if variant := recipe.variant:
            needed = (variant.of(catalog.packages[need]).name for need in variant.package.needs)
            job = replace(_of_variant(job, variant, catalog), needs=names.intersection(needed))
        jobs.append(job)
    return _ordered(jobs)
