"""Recipes that do not evaluate, for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from torchsmith.cli.console import paint, print_problem
from torchsmith.core.problem import Problem
from torchsmith.core.text import grouped, some_of

RECIPES_NAMED = 3  # with the same failure; the rest is counted


def print_failed(failed: Mapping[str, str]) -> None:
    """The recipes that do not evaluate, by cause: one that many have in common is told once."""
    for cause, names in grouped((cause, name) for name, cause in failed.items()).items():
        print_problem(Problem(cause + paint(f" ({some_of(names, RECIPES_NAMED)})", "dim", sys.stderr)))
