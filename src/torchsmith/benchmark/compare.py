"""Two builds side by side: what each takes on disk and at run time, and what is more than noise of that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median, quantiles
from typing import ClassVar, Literal

from torchsmith.benchmark.measure import Key, Measurements, MeasuringPlan, TurnClock, measure
from torchsmith.benchmark.statistics import (
    NOISE_LIMIT,
    RatioOutcome,
    differing,
    estimate,
    fewest_rounds,
    outcome,
)
from torchsmith.benchmark.subject import BuildSubject

BUSY_SHARE = 0.2  # of a core's time that others take


@dataclass(frozen=True, slots=True)
class BuildSide:
    """One of the two builds."""

    label: str
    path: str
    python: str
    version: str
    cuda: str
    cpu_capability: str
    environment: dict[str, str]
    folder: int  # bytes of torch's folder
    loaded: int  # bytes of all libraries that a process has mapped, its own and others'


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One measure of both builds: a typical round, spreads, A over B, and the outcome."""

    where: str  # start, cpu or cuda
    name: str
    unit: Literal["s", "bytes"]
    outcome: RatioOutcome
    a: float | None = None
    b: float | None = None
    spread_a: float | None = None  # between the quarters, as a share of the median
    spread_b: float | None = None
    ratio: float | None = None  # A over B
    low: float | None = None
    high: float | None = None
    chance: float | None = None  # that equal builds differ so
    detail: str = ""
    faulty: tuple[str, ...] = ()  # the builds that failed or computed something wrong

    @property
    def within(self) -> float | None:
        """Half the interval's width, as a share of the ratio."""
        if self.ratio is None or self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.ratio


@dataclass(frozen=True, slots=True)
class BuildComparison:
    """Two builds, measured."""

    FORMAT: ClassVar = 2
    a: BuildSide
    b: BuildSide
    runs: int
    cores: tuple[int, ...]
    clock: TurnClock  # of operations on the CPU: a thread's own, or the wall's
    gpu: str
    rows: tuple[MeasureRow, ...]
    # what half of the operations could hide: half an interval's width, as a share of the ratio
    noise: float | None
    notes: tuple[str, ...]


def compare_builds(
    subjects: Sequence[BuildSubject],
    plan: MeasuringPlan,
    shares: Mapping[int, float],
    progress: Callable[[int, int], None],
) -> BuildComparison:
    """Measure two builds, and test whether they differ."""
    results = measure(subjects, plan, progress)
    sides = [_side(subject, results, index) for index, subject in enumerate(subjects)]
    rows = rows_of(results)
    gpu = results.facts[0]["gpu"] if results.facts[0]["gpu"] and results.facts[1]["gpu"] else None
    return BuildComparison(
        a=sides[0],
        b=sides[1],
        runs=results.rounds,
        cores=plan.cores,
        clock=results.clock,
        gpu=gpu["name"] if gpu else "",
        rows=rows,
        noise=_noise(rows),
        notes=(*_not_measured(subjects, results), *_notes(rows, results.rounds, plan, shares)),
    )


def _not_measured(subjects: Sequence[BuildSubject], results: Measurements) -> Iterator[str]:
    """Builds for a GPU that this machine does not have: only their CPU part is compared."""
    for build, facts in zip(subjects, results.facts, strict=True):
        backend = "CUDA" if facts["cuda"] else "ROCm" if facts.get("hip") else ""
        if backend and not facts["gpu"]:
            yield f"{build.label}: no GPU that {backend} can see here, so it was measured on the CPU alone"


def rows_of(results: Measurements) -> tuple[MeasureRow, ...]:
    """Return every measure with its outcome; start, CPU and GPU are a family each."""
    rows: dict[Key, MeasureRow] = {}
    for where in dict.fromkeys(key[0] for key in (*results.values, *results.operations)):
        family = {key: pair for key, pair in results.values.items() if key[0] == where}
        estimates = {key: estimate(*pair, len(family)) for key, pair in family.items()}
        differ = differing({key[1]: entry.chance for key, entry in estimates.items()})
        for key, (a, b) in family.items():
            entry = estimates[key]
            # Rounds may be slow and fast ones: medians of each side alone could contradict the paired ratio.
            typical = median(sqrt(left * right) for left, right in zip(a, b, strict=True))
            rows[key] = MeasureRow(
                where=where,
                name=key[1],
                unit="bytes" if "memory" in key[1] and where == "start" else "s",
                outcome=outcome(entry, key[1] in differ),
                a=typical * sqrt(entry.ratio),
                b=typical / sqrt(entry.ratio),
                spread_a=_spread(a),
                spread_b=_spread(b),
                ratio=entry.ratio,
                low=entry.low if entry.bounded else None,
                high=entry.high if entry.bounded else None,
                chance=entry.chance,
            )
    for key, fault in results.faults.items():
        rows[key] = MeasureRow(
            where=key[0],
            name=key[1],
            unit="s",
            outcome=fault.outcome,
            detail=fault.detail,
            faulty=fault.builds,
        )
    order = list(dict.fromkeys((*(key for key in results.values if key[0] == "start"), *results.operations)))
    return tuple(rows[key] for key in sorted(rows, key=order.index))


def _spread(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / median(values)


def _noise(rows: Sequence[MeasureRow]) -> float | None:
    widths = [row.within for row in rows if row.within is not None]
    return median(widths) if widths else None


def _notes(
    rows: Sequence[MeasureRow], runs: int, plan: MeasuringPlan, shares: Mapping[int, float]
) -> list[str]:
    """Reasons to doubt the figures: too few runs, noise, busy cores."""
    notes = [f"stopped after {runs} of {plan.runs} runs"] if runs < plan.runs else []
    families = {
        row.where: sum(other.where == row.where and other.ratio is not None for other in rows) for row in rows
    }
    needed = fewest_rounds(max(families.values(), default=1))
    if runs < needed:
        notes.append(f"{runs} runs cannot show a difference among so many operations: use --runs {needed}")
    elif noisy := sum(row.outcome == "noisy" for row in rows):
        notes.append(
            f"the noise is too large to judge {noisy} of {len(rows)}: a difference of {NOISE_LIMIT:.0%} could"
            " hide there; more --runs or an idler machine would show them"
        )
    crowded = [
        f"core {core} is {shares[core]:.0%} busy" for core in plan.cores if shares.get(core, 0) > BUSY_SHARE
    ]
    if crowded:
        notes.append(f"others use this machine: {', '.join(crowded)}")
    return notes


def _side(subject: BuildSubject, results: Measurements, index: int) -> BuildSide:
    facts = results.facts[index]
    return BuildSide(
        label=subject.label,
        path=str(subject.path),
        python=str(subject.interpreter.python),
        version=facts["version"],
        cuda=facts["cuda"],
        cpu_capability=facts["capability"],
        environment=dict(subject.extra),
        folder=_size_of(Path(facts["file"]).parent),
        loaded=sum(results.libraries[index].values()),
    )


def _size_of(folder: Path) -> int:
    files = (Path(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names)
    return sum(file.stat().st_size for file in files if file.is_file())
