"""Words for people that several rooms say alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def some_of(names: Sequence[str], shown: int = 1) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def shell_word(word: str) -> str:
    """A word as a shell takes it."""
    import shlex  # only where a command is told

    return shlex.quote(word)


def counted(number: int, thing: str) -> str:
    """1 cell, 44 cells."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Values by the key that they have in common: names by their reason, which is told once for all."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
