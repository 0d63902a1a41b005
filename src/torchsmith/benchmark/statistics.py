"""Whether two builds differ, from paired measurements, without a belief about how noise is distributed.

Two equal builds are exchangeable within a round, so the logarithm of their ratio is symmetric about zero.
A signed-rank test (Wilcoxon's, with bounded scores) asks nothing more, and its distribution is computed here
and not approximated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import median
from typing import Literal

LEVEL = 0.05  # the chance that any of a family of equal operations is called different
LEAST_DIFFERENCE = 0.01  # a smaller difference is not called one, however sure it is
PRECISION = 1e-6  # how exact the ends of an interval are
NOISE_LIMIT = 0.05  # if a difference of this size could hide, the noise is too large to say "same"

RatioOutcome = Literal["lower", "higher", "same", "noisy", "wrong", "failed"]


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """A's measure over B's, and how sure that is."""

    ratio: float
    low: float  # of the interval that holds all ratios of a family together at the level
    high: float
    chance: float  # that equal builds differ so, not yet corrected for the number of operations

    @property
    def bounded(self) -> bool:
        """Whether there were rounds enough for an interval."""
        return math.isfinite(self.high)


def scores(values: Sequence[float]) -> list[int]:
    """Twice the rank of each absolute value, the same for the whole upper half, to limit outliers."""
    sizes = sorted(map(abs, values))
    return [min(sizes.index(abs(value)) * 2 + sizes.count(abs(value)) + 1, len(values)) for value in values]


@cache
def ways_up_to(weights: tuple[int, ...]) -> tuple[int, ...]:
    """For every sum that some of these weights can have, how many ways there are to it or below."""
    ways = [1]
    for weight in weights:
        ways = [
            (ways[total] if total < len(ways) else 0) + (ways[total - weight] if total >= weight else 0)
            for total in range(len(ways) + weight)
        ]
    return tuple(accumulate(ways))


def chance(differences: Sequence[float]) -> float:
    """Return how likely signed ranks as far from even as these are, if every sign is a toss of a coin."""
    nonzero = [difference for difference in differences if difference]
    weights = scores(nonzero)
    up = sum(weight for weight, difference in zip(weights, nonzero, strict=True) if difference > 0)
    below = ways_up_to(tuple(sorted(weights)))[min(up, sum(weights) - up)]
    return min(1.0, math.ldexp(below, 1 - len(nonzero)))


def fewest_rounds(family: int) -> int:
    """The fewest rounds that can prove a difference among so many operations."""
    return math.ceil(math.log2(2 * max(family, 1) / LEVEL))


def typical(values: Sequence[float]) -> float:
    """Return the median of pairwise means (Hodges and Lehmann): as precise as a mean for normal noise, and
    not moved by outliers."""
    return median((value + other) / 2 for index, value in enumerate(values) for other in values[index:])


def estimate(a: Sequence[float], b: Sequence[float], family: int) -> RatioEstimate:
    """The ratio of paired measurements and its interval, one of a family."""
    differences = [math.log(first / second) for first, second in zip(a, b, strict=True)]
    middle, level = typical(differences), LEVEL / max(family, 1)
    low, high = -math.inf, math.inf
    if len(differences) >= fewest_rounds(family):
        low = _bound(differences, min(differences) - PRECISION, middle, level)
        high = _bound(differences, max(differences) + PRECISION, middle, level)
    return RatioEstimate(math.exp(middle), math.exp(low), math.exp(high), chance(differences))


def _bound(differences: Sequence[float], outside: float, inside: float, level: float) -> float:
    """Return the end of the interval, at which the chance falls below the level."""
    while abs(outside - inside) > PRECISION:
        between = (outside + inside) / 2
        if chance([difference - between for difference in differences]) > level:
            inside = between
        else:
            outside = between
    return outside


def differing(chances: Mapping[str, float]) -> set[str]:
    """Which of a family differ, so that the chance of one false claim among all stays at the level (Holm)."""
    names: set[str] = set()
    for place, name in enumerate(sorted(chances, key=lambda name: chances[name])):
        if chances[name] > LEVEL / (len(chances) - place):
            break
        names.add(name)
    return names


def outcome(estimate: RatioEstimate, differs: bool) -> RatioOutcome:
    """The verdict on an operation."""
    if differs and abs(estimate.ratio - 1) >= LEAST_DIFFERENCE:
        return "lower" if estimate.ratio < 1 else "higher"
    if differs:
        return "same"
    return "same" if estimate.low > 1 - NOISE_LIMIT and estimate.high < 1 + NOISE_LIMIT else "noisy"
