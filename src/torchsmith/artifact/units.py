"""Translation units: of what kind each is, and from which one a function comes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal

from torchsmith.artifact.elf import Function
from torchsmith.artifact.tables import Table, read_table

UnitKind = Literal["c++", "cuda", "runtime", "assembly"]
UnitPlace = Literal["own", "runtime", "assembly", "dispatched", "foreign", "unknown", "any"]


class KindPattern(Table, frozen=True):
    """File names that mean a kind of unit."""

    kind: UnitKind
    pattern: str


class UnitFacts(Table, frozen=True):
    """data/units.toml."""

    source: str
    kinds: tuple[KindPattern, ...]


@cache
def _patterns() -> list[tuple[re.Pattern[str], UnitKind]]:
    facts = read_table("units.toml", UnitFacts)
    return [(re.compile(row.pattern, re.VERBOSE), row.kind) for row in facts.kinds]


def kind_of(unit: str) -> UnitKind:
    """The kind of a unit, by its name."""
    return next((kind for pattern, kind in _patterns() if pattern.search(unit)), "c++")


# Linkers gather cold code and code of the start apart.
COLD = re.compile(rb"\.cold(\.\d+)?$")
STARTS = re.compile(rb"_GLOBAL__(sub_)?[ID]_")
REGISTERS = b"__sti____cudaRegisterAll"


def stands_apart(name: bytes) -> bool:
    """Whether a function does not stand where the rest of its unit does."""
    cold = b"." in name and COLD.search(name)  # most names hold no dot, and looking for one is quick
    return bool(cold or STARTS.match(name) or REGISTERS in name)


def spans_of(rows: list[Function], apart: Sequence[bool], units: int) -> list[tuple[int, int]]:
    """For each function, by address, the first and last unit it can come from, -1 where that is not known.

    A linker lays down object after object. A function between two local ones comes from their unit, or
    from one that was linked between theirs.
    """
    anchors = [
        row.unit if row.unit >= 0 and not elsewhere else -1
        for row, elsewhere in zip(rows, apart, strict=True)
    ]
    following, after = units - 1, [-1] * len(rows)
    for index in range(len(rows) - 1, -1, -1):
        if anchors[index] >= 0:
            following = anchors[index]
        after[index] = following
    before, span = -1, (-1, -1)
    spans: list[tuple[int, int]] = []
    for row, anchor, last in zip(rows, anchors, after, strict=True):
        before = anchor if anchor >= 0 else before
        stretch = (row.unit, row.unit) if row.unit >= 0 else (before, last)
        span = span if stretch == span else stretch  # neighbours share one value
        spans.append(span)
    return spans


@dataclass(frozen=True, slots=True)
class UnitLayout:
    """The units of a library by what they are, so that a stretch of them can be judged at once."""

    places: list[UnitPlace]
    runs: list[int]  # the same number for neighbours of the same place
    counts: dict[UnitPlace, list[int]]  # how many units of a place stand before each
    mixed: bool  # some code is dispatched, wherever it stands

    @classmethod
    def of(cls, places: list[UnitPlace], mixed: bool = False) -> UnitLayout:
        changes = (int(index > 0 and places[index - 1] != place) for index, place in enumerate(places))
        kinds: tuple[UnitPlace, ...] = ("own", "dispatched", "foreign")
        counts = {
            kind: list(accumulate((int(place == kind) for place in places), initial=0)) for kind in kinds
        }
        return cls(places, list(accumulate(changes)), counts, mixed or "dispatched" in places)

    def place(self, first: int, last: int, own: bool) -> UnitPlace:
        """What the units of a stretch are; "any" where a dispatched one is among them.

        A function of PyTorch's `own` comes from none of the others.
        """
        if first < 0 or last < first:
            return "any" if self.mixed else "unknown"
        if self.runs[first] == self.runs[last]:
            return self.places[first]
        among = {kind for kind, counts in self.counts.items() if counts[last + 1] > counts[first]}
        if "dispatched" in among:
            return "any"
        if among == {"own", "foreign"}:
            among.discard("foreign")
        return among.pop() if own and len(among) == 1 else "unknown"
