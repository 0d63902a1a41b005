"""A rehearsal: a recipe's own derivation that compiles a sample, and the whole build estimated from it."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import msgspec

from torchsmith.building.plan import BuildPlan, Evaluation
from torchsmith.catalog import Catalog
from torchsmith.catalog.facts import Rehearsal
from torchsmith.core.files import read_text
from torchsmith.core.problem import Invalid, NotKnown, Where
from torchsmith.nix.graph import Graph
from torchsmith.record import Expected
from torchsmith.workspace.checkout import RecipeFile

KIND = "rehearsal"  # of such jobs, so that their times do not count as a build's
PREFIX = "rehearsal-of-"
BUILD_SHARE = 0.03  # of a build's time that a rehearsal takes: a guess
LEAST_SECONDS = 30.0


class SampledUnit(msgspec.Struct, frozen=True):
    """An object that was compiled, why it, and what that cost."""

    output: str
    source: str
    kind: str
    why: str  # empty: it was drawn from its kind
    cpu_seconds: float

    @property
    def drawn(self) -> bool:
        """Whether it was drawn at random: only these are typical of their kind."""
        return not self.why


class RehearsalFigures(msgspec.Struct, frozen=True):
    """What a rehearsal wrote down: rehearsal.json of its output."""

    configure_seconds: float
    compile_seconds: float
    cpu_seconds: float
    cores: int
    steps: int  # that ninja took for the sample, what it needs included
    objects: int  # that the whole build compiles
    counts: dict[str, int]  # of these, by kind
    compiled: list[SampledUnit]


@dataclass(frozen=True, slots=True)
class WholeBuild:
    """What all objects would take: CPU seconds, and seconds on a number of cores."""

    core_seconds: float
    cores: int
    seconds: float
    error: float  # of both, as a share: two standard errors of what was drawn


def phase_of(sample: Rehearsal) -> str:
    """The build phase that rehearses a package."""
    here = files("torchsmith.building")
    program = here.joinpath("rehearse_child.py").read_text()
    known = msgspec.to_builtins(sample)
    parameters = {name: known[name] for name in ("configure", "tree", "dispatched", "draw", "objects")}
    text = here.joinpath("rehearse.sh").read_text()
    return text.replace("@program@", program).replace("@sample@", json.dumps(parameters, indent=1))


def phases_of(recipes: Iterable[RecipeFile], catalog: Catalog) -> dict[str, str]:
    """The phase of each recipe. Raises NotKnown for a package that the catalog's rehearsals do not have."""
    phases = {}
    for recipe in recipes:
        package = recipe.variant.package.name if recipe.variant else ""
        if package not in catalog.rehearsals:
            hint = f"select a package that it has: {', '.join(catalog.rehearsals)}"
            raise NotKnown(f"{recipe.name}: the catalog has no rehearsal of {package or 'it'}", hint=hint)
        phases[recipe.name] = phase_of(catalog.rehearsals[package])
    return phases


def renamed(evaluation: Evaluation) -> Evaluation:
    """Recipes under the names of their rehearsals."""
    names = {PREFIX + name: path for name, path in evaluation.graph.recipes.items()}
    return Evaluation(Graph(evaluation.graph.derivations, names), evaluation.broken)


def as_rehearsals(plan: BuildPlan) -> BuildPlan:
    """A plan whose recipes are rehearsed: no code of theirs runs, and they cost a small part of a build."""
    jobs = tuple(replace(job, package=KIND, isa="") if job.recipes else job for job in plan.jobs)
    short = {job.key for job in plan.jobs if job.recipes}
    expected = {key: _short(cost) if key in short else cost for key, cost in plan.expected.items()}
    return replace(plan, jobs=jobs, expected=expected)


def _short(whole: Expected) -> Expected:
    guesses = tuple(dict.fromkeys(("seconds", *whole.guesses)))
    seconds = max(LEAST_SECONDS, BUILD_SHARE * whole.seconds)
    return replace(whole, seconds=seconds, basis="guess", guesses=guesses)


def read_figures(output: Path) -> RehearsalFigures:
    """The figures in a rehearsal's output. Raises Invalid."""
    path = output / "rehearsal.json"
    try:
        return msgspec.json.decode(read_text(path), type=RehearsalFigures)
    except msgspec.MsgspecError as error:
        raise Invalid(f"this is not a rehearsal: {error}", where=Where(str(path))) from error


def whole_build(figures: RehearsalFigures, cores: int) -> WholeBuild:
    """All objects, each at what the drawn ones of its kind cost, handed to cores one after the other."""
    durations: list[float] = []
    variance = 0.0
    for kind, count in figures.counts.items():
        drawn = [unit.cpu_seconds for unit in figures.compiled if unit.kind == kind and unit.drawn]
        known = drawn or [unit.cpu_seconds for unit in figures.compiled if unit.kind == kind]
        typical = known or [mean([unit.cpu_seconds for unit in figures.compiled] or [0.0])]
        durations += [typical[index % len(typical)] for index in range(count)]
        spread = stdev(drawn) if len(drawn) > 1 else mean(typical)
        variance += (count * spread) ** 2 * (1 / len(typical) - 1 / max(count, len(typical)))
    named = {unit.output: unit.cpu_seconds for unit in figures.compiled if not unit.drawn}
    longest = max([*durations, *named.values()], default=0.0)
    seconds = max(makespan(durations, cores), longest) + figures.configure_seconds
    total = sum(durations) + figures.configure_seconds
    return WholeBuild(total, cores, seconds, 2 * sqrt(variance) / total if total else 0.0)


def makespan(durations: Sequence[float], cores: int) -> float:
    """When the last of these ends, each started as soon as a core is free, the longest first."""
    free = [0.0] * max(cores, 1)
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(free, free[0] + duration)
    return max(free)
