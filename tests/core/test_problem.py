"""Every problem can be copied and sent to another process, whatever its class takes."""

from __future__ import annotations

import pickle

from tools.reference import kinds
from torchsmith.catalog.check import Contradiction
from torchsmith.core.problem import NotFound, Problem, Where
from torchsmith.matrix.variant import BadName


def test_every_problem_survives_a_pickle() -> None:
    problem = NotFound("gone", hint="look elsewhere", where=Where("a.nix", 3))
    made: dict[type[Problem], Problem] = {
        BadName: BadName("x", 1, "empty"),
        Contradiction: Contradiction([problem]),
    }
    for kind in kinds():
        before = made.get(kind) or kind("gone", hint="look elsewhere", where=Where("a.nix", 3))
        after = pickle.loads(pickle.dumps(before))
        assert type(after) is kind
        assert str(after) == str(before)
        assert {*vars(after)} == {*vars(before)}


def test_a_problem_with_another_hint_is_another_problem() -> None:
    problem = BadName("x", 1, "empty")
    other = problem.replace(hint="like this")
    assert isinstance(other, BadName)
    assert (other.column, other.hint) == (1, "like this")
    assert problem.hint != other.hint
