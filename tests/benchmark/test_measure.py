"""Results of two builds are compared before anything is timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchsmith.benchmark.measure import Measurements, _check

RIGHT = {"right": True, "error": 0.0, "limit": 1e-6, "sample": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({}, False),
        ({"sample": [1.0, 3.0]}, True),
        ({"right": False, "error": 0.5}, True),
    ],
)
def test_builds_that_differ_from_float64_or_from_each_other_are_wrong(
    answer: dict[str, Any], wrong: bool
) -> None:
    processes: Any = {
        label: SimpleNamespace(ask=lambda _, answer=given, **__: answer)
        for label, given in enumerate((RIGHT, RIGHT | answer))
    }
    measured = Measurements()
    _check(processes, [("cpu", "add")], measured)
    assert list(measured.faults) == ([("cpu", "add")] if wrong else [])
