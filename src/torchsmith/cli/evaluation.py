"""Recipes that do not evaluate, for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torchsmith.cli.console import paint, print_problem
from torchsmith.core.problem import Exit, Problem, Where
from torchsmith.core.words import grouped, some_of

if TYPE_CHECKING:
    from torchsmith.nix.evaluate import EvalResult

NAMED = 3  # recipes with the same failure that are named; the rest is counted


def print_failures(results: Sequence[EvalResult]) -> Exit:
    """The recipes that do not evaluate, by cause: one that many have in common is told once. Returns the
    exit code for them."""
    from torchsmith.nix.evaluate import exit_of

    causes = grouped((one.cause, one) for one in results if one.cause is not None)
    for cause, failed in causes.items():
        names = some_of([result.name for result in failed], NAMED)
        words = cause.message + paint(f" ({names})", "dim", sys.stderr)
        print_problem(Problem(words, where=cause.where or Where(str(failed[0].path))))
    return exit_of([cause.message for cause in causes])


def print_failed(failed: Mapping[str, str]) -> Exit:
    """The same of a report: recipes that do not evaluate, by cause."""
    from torchsmith.nix.evaluate import exit_of

    for cause, names in grouped((cause, name) for name, cause in failed.items()).items():
        print_problem(Problem(cause + paint(f" ({some_of(names, NAMED)})", "dim", sys.stderr)))
    return exit_of(failed.values())
