"""The benchmarks still run: every module is there, and some are measured once, on a small input."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

import bench.evaluate
import bench.host
from bench.__main__ import MODULES
from bench.measure import Timing
from torchsmith.nix.tool import find_nix

BENCH = Path(bench.host.__file__).parent
GOLDEN = Path(__file__).parent / "recipe/golden"


def once(ours: Callable[[], None], theirs: Callable[[], None], repeats: int) -> tuple[Timing, Timing]:
    """Both run, and neither is timed."""
    ours()
    theirs()
    return Timing((float(repeats),)), Timing((1.0,))


def test_every_benchmark_is_listed_and_has_rows() -> None:
    files = {file.stem for file in BENCH.glob("*.py")} - {"__init__", "__main__", "measure"}
    assert set(MODULES) == files
    assert all(callable(importlib.import_module(f"bench.{name}").rows) for name in MODULES)


def test_picking_and_covering_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("in_turn", once), ("MACHINES", 40), ("KINDS", 8)):
        monkeypatch.setattr(bench.host, name, value)
    assert [row.ratio > 0 for row in bench.host.rows()] == [True] * 3


@pytest.mark.needs("nix")
def test_reading_recipes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.evaluate, "in_turn", once)
    recipes = sorted(GOLDEN.rglob("*.nix"))[:2]
    assert recipes
    assert bench.evaluate._reading(find_nix(store="dummy://"), recipes).ratio > 0
