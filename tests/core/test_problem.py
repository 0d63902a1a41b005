"""Every problem can be copied and sent to another process, whatever its class takes."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import torchsmith
from torchsmith.catalog.check import Contradiction
from torchsmith.core.problem import NotFound, Problem, Where
from torchsmith.matrix.variant import BadName

SOURCE = Path(torchsmith.__file__).parent


def _all_below(kind: type[Problem]) -> set[type[Problem]]:
    return {kind}.union(*(_all_below(one) for one in kind.__subclasses__()))


def test_every_problem_survives_a_pickle() -> None:
    for file in SOURCE.rglob("*.py"):
        if "(Problem):" in file.read_text():
            importlib.import_module(".".join(file.relative_to(SOURCE.parent).with_suffix("").parts))
    problem = NotFound("gone", hint="look elsewhere", where=Where("a.nix", 3))
    made = {BadName: BadName("x", 1, "empty"), Contradiction: Contradiction([problem])}
    for kind in _all_below(Problem):
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
