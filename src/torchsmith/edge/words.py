"""Words for people that several rooms say alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

R = TypeVar("R")


def some_of(names: Sequence[str], shown: int = 1) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def counted(number: int, thing: str) -> str:
    """1 cell, 44 cells."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def by_reason(rows: Iterable[tuple[R, str]]) -> dict[R, list[str]]:
    """Names by the reason that they have in common, out of pairs of reason and name: told once for all."""
    found: dict[R, list[str]] = {}
    for why, name in rows:
        found.setdefault(why, []).append(name)
    return found
