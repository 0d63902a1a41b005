"""The rules notice mistakes and name them: a sample of the harness, whose whole run is `make mutations`."""

from __future__ import annotations

import random

import pytest

from tools.mutations.generic import generic
from tools.mutations.harness import Outcome, findings_of, key_of, missed, right_recipes, run, share
from tools.mutations.mistake import Mistake
from tools.mutations.realistic import realistic

GOAL = 0.98
SAMPLE = 700


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    return {one.name: {key_of(found) for found in findings_of(one.name, one.text)} for one in right_recipes()}


def sample(mistakes: list[Mistake], known: dict[str, set[str]]) -> list[Outcome]:
    return list(run(random.Random(1).sample(mistakes, SAMPLE), known))


@pytest.mark.long
def test_realistic_mistakes_are_caught_and_named(known: dict[str, set[str]]) -> None:
    outcomes = sample([one for right in right_recipes() for one in realistic(right)], known)
    caught, named = share(outcomes)
    assert caught > GOAL, missed(outcomes)
    assert named > GOAL, [one for one in outcomes if not one.named][:5]


@pytest.mark.long
def test_generic_mistakes_are_caught_and_named(known: dict[str, set[str]]) -> None:
    chosen = random.Random(2)
    outcomes = sample([one for right in right_recipes() for one in generic(right, chosen)], known)
    caught, named = share(outcomes)
    assert caught > GOAL, missed(outcomes)
    assert named > GOAL - 0.01, [one.mistake.what for one in outcomes if not one.named][:9]


def test_the_recipes_that_mistakes_are_made_in_are_right() -> None:
    for right in right_recipes():
        told = [one for one in findings_of(right.name, right.text) if one.severity.value != "note"]
        assert not told, told
