"""The rules notice mistakes and name them: a sample of the harness, whose whole run is `make mutations`."""

from __future__ import annotations

import random

import pytest

from tools.mutations.generic import generic
from tools.mutations.harness import (
    OTHER_HANDS,
    Outcome,
    changing,
    findings_of,
    known_of,
    missed,
    right_recipes,
    run,
    share,
    written_by_others,
)
from tools.mutations.mistake import Mistake, Right
from tools.mutations.realistic import realistic

GOAL = 0.98
SAMPLE = 700


@pytest.fixture(scope="module")
def known() -> dict[Right, set[str]]:
    return known_of(right_recipes())


def sample(mistakes: list[Mistake], known: dict[Right, set[str]]) -> list[Outcome]:
    return list(run(random.Random(1).sample(mistakes, SAMPLE), known))


@pytest.mark.long
def test_realistic_mistakes_are_caught_and_named(known: dict[Right, set[str]]) -> None:
    outcomes = sample([one for right in right_recipes() for one in realistic(right)], known)
    caught, named = share(outcomes)
    assert caught > GOAL, missed(outcomes)
    assert named > GOAL, [one for one in outcomes if not one.named][:5]


@pytest.mark.long
def test_generic_mistakes_are_caught_and_named(known: dict[Right, set[str]]) -> None:
    chosen = random.Random(2)
    outcomes = sample([one for right in right_recipes() for one in generic(right, chosen)], known)
    caught, named = share(outcomes)
    assert caught > GOAL, missed(outcomes)
    assert named > GOAL - 0.01, [one.mistake.what for one in outcomes if not one.named][:9]


def test_mistakes_in_recipes_of_other_hands_are_caught() -> None:
    others = written_by_others([OTHER_HANDS])
    outcomes = list(run(changing(others), known_of(others)))
    caught, _ = share(outcomes)
    assert len(outcomes) > 150
    assert caught > 0.95, missed(outcomes)


def test_the_recipes_that_mistakes_are_made_in_are_right() -> None:
    for right in right_recipes():
        told = [one for one in findings_of(right.name, right.text) if one.severity.value != "note"]
        assert not told, told
