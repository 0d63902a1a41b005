"""What is called a difference is one: equal builds seldom differ, and 5 % is found where noise allows."""

from __future__ import annotations

import itertools
import random
from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.benchmark.compare import rows_of
from torchsmith.benchmark.measure import Measurements, paired_times
from torchsmith.benchmark.statistics import (
    LEVEL,
    NOISE_LIMIT,
    RatioEstimate,
    chance,
    differing,
    estimate,
    fewest_rounds,
    outcome,
    scores,
)

FAMILY = 26
RUNS = 16


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_the_chance_is_that_of_all_tosses(values: list[int]) -> None:
    """Every way to toss the signs, counted one by one."""
    nonzero = [one for one in values if one]
    weights = scores(nonzero)

    def far(signs: tuple[int, ...]) -> int:
        return abs(sum(sign * weight for sign, weight in zip(signs, weights, strict=True)))

    seen = far(tuple(1 if one > 0 else -1 for one in nonzero))
    tosses = list(itertools.product((-1, 1), repeat=len(nonzero)))
    expected = sum(far(signs) >= seen for signs in tosses) / len(tosses)
    assert chance([float(one) for one in values]) == pytest.approx(expected)


def test_the_interval_ends_where_the_test_would_call_it_a_difference() -> None:
    noise = random.Random(3)
    a, b = ([exp(noise.gauss(0, 0.02)) for _ in range(RUNS)] for _ in range(2))
    found = estimate(a, b, FAMILY)
    for end, inside in ((found.low, 1.0001), (found.high, 0.9999)):
        outside = 2 - inside
        assert chance_at(a, b, end * inside) > LEVEL / FAMILY >= chance_at(a, b, end * outside)


def test_how_far_out_an_outlier_is_changes_nothing() -> None:
    differences = [0.05 + index / 1000 for index in range(RUNS - 1)]
    assert chance([*differences, -0.2]) == chance([*differences, -20.0]) < LEVEL / FAMILY


def chance_at(a: list[float], b: list[float], ratio: float) -> float:
    return estimate([one / ratio for one in a], b, FAMILY).chance


@pytest.mark.parametrize(("family", "rounds"), [(1, 6), (3, 7), (20, 10), (26, 11), (33, 11)])
def test_fewer_rounds_could_show_nothing(family: int, rounds: int) -> None:
    assert fewest_rounds(family) == rounds
    assert chance([1.0 + one for one in range(rounds)]) <= LEVEL / family
    assert chance([1.0 + one for one in range(rounds - 1)]) > LEVEL / family


def test_without_rounds_enough_there_is_no_interval() -> None:
    found = estimate([1.0, 1.1], [1.0, 1.0], FAMILY)
    assert (found.low, found.high, found.bounded) == (0.0, inf, False)
    assert outcome(found, differs=False) == "noisy"


def simulated(noise: random.Random, slow: float, spread: float) -> set[str]:
    """Which of a family are called different, where the first one of A is `slow` times B's.

    Noise has a long tail, as it has on a machine that others use.
    """
    estimates = {}
    for index in range(FAMILY):
        factor = slow if index == 0 else 1.0
        pair = [
            [
                exp(noise.gauss(0, spread) + (noise.expovariate(10) if noise.random() < 0.02 else 0.0))
                for _ in range(RUNS)
            ]
            for _ in range(2)
        ]
        estimates[str(index)] = estimate([one * factor for one in pair[0]], pair[1], FAMILY)
    differ = differing({name: one.chance for name, one in estimates.items()})
    return {name for name, one in estimates.items() if outcome(one, name in differ) in ("lower", "higher")}


def test_equal_builds_seldom_differ_anywhere() -> None:
    noise = random.Random(1)
    claims = [simulated(noise, 1.0, 0.02) for _ in range(100)]
    assert sum(map(bool, claims)) <= 0.08 * len(claims)
    assert max(map(len, claims)) <= 1


def test_five_percent_in_one_operation_is_found() -> None:
    noise = random.Random(2)
    claims = [simulated(noise, 1.05, 0.01) for _ in range(50)]
    assert sum("0" in one for one in claims) >= 0.95 * len(claims)
    assert sum(len(one - {"0"}) for one in claims) <= 0.08 * len(claims)


def test_holm_stops_at_the_first_that_could_be_chance() -> None:
    assert differing({"a": 0.001, "b": 0.02, "c": 0.5}) == {"a", "b"}
    assert differing({"a": 0.001, "b": 0.03, "c": 0.04}) == {"a"}
    assert differing({}) == set()


@pytest.mark.parametrize(
    ("found", "differs", "said"),
    [
        (RatioEstimate(0.90, 0.88, 0.92, 1e-4), True, "lower"),
        (RatioEstimate(1.10, 1.05, 1.15, 1e-4), True, "higher"),
        (RatioEstimate(1.005, 1.001, 1.009, 1e-4), True, "same"),
        (RatioEstimate(1.001, 0.98, 1.02, 0.7), False, "same"),
        (RatioEstimate(1.02, 0.93, 1.11, 0.3), False, "noisy"),
        (RatioEstimate(1.02, 0.99, 1 + NOISE_LIMIT, 0.3), False, "noisy"),
    ],
)
def test_what_may_be_said(found: RatioEstimate, differs: bool, said: str) -> None:
    assert outcome(found, differs) == said


def test_turns_side_by_side_tell_what_the_best_of_each_would_not() -> None:
    """Moments that slow both builds down by up to half, and a build that takes 5 % more."""
    noise = random.Random(5)
    paired, best = [], []
    for _ in range(50):
        moments = [1 + noise.random() / 2 for _ in range(24)]
        a, b = ([one * (1 + noise.gauss(0, 0.01)) for one in moments] for _ in range(2))
        a = [1.05 * one for one in a]
        one, other = paired_times(a, b)
        paired.append(abs(one / other - 1.05))
        best.append(abs(min(a) / min(b) - 1.05))
    assert max(paired) < 0.015
    assert sum(paired) < sum(best)


def test_who_is_settled_first_does_not_matter() -> None:
    a, b = [1.0, 2.0, 3.0], [1.1, 1.9, 3.3]
    assert paired_times(a, b) == pytest.approx(tuple(reversed(paired_times(b, a))))


def test_a_row_shows_values_that_agree_with_its_ratio() -> None:
    """Half of the rounds are slow for both: A takes less in each, though its own median is the larger one."""
    slow, fast = [(1.9, 2.2)] * 7, [(1.1, 1.3)] * 7
    rounds = [*slow, *fast, (1.6, 1.85), (1.45, 1.31)]
    found = Measurements()
    found.values[("start", "import torch")] = [one for one, _ in rounds], [other for _, other in rounds]
    (row,) = rows_of(found)
    assert row.outcome == "lower"
    assert row.a is not None
    assert row.b is not None
    assert row.a / row.b == pytest.approx(row.ratio)
