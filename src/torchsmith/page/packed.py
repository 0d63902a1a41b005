"""Many recipes as few lines: they differ in a few paragraphs, and each paragraph is kept once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

MOST_LINES = 2000
T = TypeVar("T", bound=Hashable)


class Once(Generic[T]):
    """Values in the order in which they were met, each once."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self._places: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        place = self._places.setdefault(value, len(self.all))
        if place == len(self.all):
            self.all.append(value)
        return place


class PackedRecipes:
    """Lines, paragraphs of lines, and recipes as paragraphs, each by number."""

    def __init__(self) -> None:
        self.lines: Once[str] = Once()
        self.paragraphs: Once[tuple[int, ...]] = Once()

    def add(self, text: str) -> list[int]:
        """A recipe as its paragraphs."""
        return [self.paragraphs(tuple(map(self.lines, part))) for part in _paragraphs(text)]


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Stretches of lines, each with the empty line that ends it."""
    part: list[str] = []
    for line in text.split("\n")[:MOST_LINES]:
        part.append(line)
        if not line.strip():
            yield part
            part = []
    if part:
        yield part
