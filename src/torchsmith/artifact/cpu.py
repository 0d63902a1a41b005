"""CPU code in a library: the CPU features that code outside dispatch needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from operator import attrgetter
from typing import NamedTuple

from torchsmith.artifact import iced
from torchsmith.artifact.elf import GLOBAL, Elf, ElfMachine, Function, functions_of, place_of
from torchsmith.artifact.features import features_aarch64
from torchsmith.artifact.tables import Table, read_table

MOST_UNNAMED = 64 << 20  # bytes of code between two functions
NO_NAME = "(no name)"
LONGEST_NAME = 120  # characters of a function's name in a message


class Dispatch(Table, frozen=True):
    """data/dispatch.toml."""

    source: str
    foreign: tuple[str, ...]
    c_names: str
    by_suffix: str
    by_copy: str
    default: str
    capabilities: tuple[str, ...]


@cache
def dispatch() -> Dispatch:
    return read_table("dispatch.toml", Dispatch)


@dataclass(frozen=True, slots=True)
class SymbolPatterns:
    """Patterns over mangled names, as bytes: a library has hundreds of thousands."""

    own: re.Pattern[bytes]
    of_own_types: re.Pattern[bytes]
    capability: re.Pattern[bytes]
    suffix: re.Pattern[bytes]
    copy: re.Pattern[bytes]
    unit: re.Pattern[str]


# What may be before a name: a guard, a thunk, a nested or qualified name.
PREFIX = r"_Z(?:GV|GR|T[hvW][n\d_]*+|[ZNKVROL])*+"


@dataclass(frozen=True, slots=True)
class OwnSpaces:
    """C++ namespaces of a package and of what it builds on; `unclaimed`: also those of no known library."""

    named: tuple[str, ...]
    unclaimed: bool = False


def _mangled(spaces: Iterable[str]) -> str:
    return "|".join(f"{len(space)}{space}" for space in spaces)


@cache
def patterns_of(spaces: OwnSpaces) -> SymbolPatterns:
    known = dispatch()
    own = _mangled(spaces.named)
    spelled = [f"{len(name)}{name}" for name in known.capabilities]
    # St, Sa, Ss ... are std and its parts.
    begins = rf"(?!S[tabsiod]|{_mangled(known.foreign)})" if spaces.unclaimed else f"(?:{own})"
    return SymbolPatterns(
        own=re.compile(rf"{PREFIX}{begins}|(?:{known.c_names})".encode()),
        of_own_types=re.compile(rf"_Z.*?N[KVRO]*(?:{own})\d".encode()),
        capability=re.compile("|".join(spelled).encode()),
        suffix=re.compile(known.by_suffix.encode()),
        copy=re.compile(known.by_copy.encode()),
        unit=re.compile(rf"\.({'|'.join(known.capabilities)})\.cpp$"),
    )


class SymbolFacts(NamedTuple):
    """What a function's name says; equal ones are one object, to save memory."""

    own: bool
    capability: str  # that it was compiled for; empty if the name has none


def facts_of_symbol(name: bytes, patterns: SymbolPatterns) -> SymbolFacts:
    own = bool(patterns.own.match(name) or patterns.of_own_types.match(name))
    spelled = patterns.capability.search(name)
    if spelled:
        return _interned(own, spelled[0].decode().lstrip("0123456789"))
    suffix = patterns.suffix.search(name) or (b"." in name and patterns.copy.search(name))
    return _interned(own, suffix[1].decode().upper() if suffix else "")


_interned = cache(SymbolFacts)


@dataclass
class Tally:
    """Counts over functions."""

    functions: int = 0
    undecoded: int = 0
    examples: dict[str, str] = field(default_factory=dict)  # for each feature a function that needs it

    def join(self, other: Tally) -> None:
        """Add the counts of another library."""
        self.functions += other.functions
        self.undecoded += other.undecoded
        self.examples = other.examples | self.examples

    @property
    def features(self) -> frozenset[str]:
        """What this code needs beyond the oldest CPU."""
        return frozenset(self.examples)


@dataclass(frozen=True, slots=True)
class CpuCode:
    """The features that the CPU code of a library, or of several, needs."""

    machine: ElfMachine
    complete: bool  # every function was read
    own: Tally  # of its own functions outside dispatch
    unnamed: Tally  # of code of which no name says whether it is dispatched
    dispatched: tuple[str, ...]  # capabilities seen

    @property
    def undecoded(self) -> int:
        """How many functions could not be decoded."""
        return self.own.undecoded + self.unnamed.undecoded


def needs_of_code(machine: ElfMachine, code: bytes) -> tuple[tuple[str, ...], bool]:
    """The features of code, and whether it has bytes that are not an instruction."""
    return iced.features_x86(code) if machine == "x86_64" else (features_aarch64(code), False)


def cpu_code(elf: Elf, library: str, spaces: OwnSpaces | None) -> CpuCode:
    """Read every function of a library that must run on each CPU; without `spaces` all of its code, because
    nothing says which of it is dispatched."""
    return _CodeScan(elf, library, patterns_of(spaces) if spaces else None).done()


def _each_once(rows: list[Function]) -> list[Function]:
    """Functions by address, the last name of each; sorted by plain numbers, to save memory."""
    rows.sort(key=attrgetter("size"))
    rows.sort(key=attrgetter("address"))
    return [row for row, after in zip_longest(rows, rows[1:]) if after is None or after[:2] != row[:2]]


def clipped(name: str) -> str:
    """A function's name, shortened: templates of C++ can fill a screen, and both ends matter most."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]} … {name[-half:]}"


class _CodeScan:
    """One pass over a library's functions: whose each is, and what it needs."""

    def __init__(self, elf: Elf, library: str, patterns: SymbolPatterns | None) -> None:
        self.elf, self.library, self.foreign = elf, library, patterns is None
        self.functions = functions_of(elf)
        self.rows = _each_once(self.functions.rows)
        self.symbols = [
            facts_of_symbol(self.functions.raw_name(row), patterns) if patterns else _interned(False, "")
            for row in self.rows
        ]
        matches = (patterns and patterns.unit.search(unit) for unit in self.functions.units)
        self.unit_capabilities = [match[1] if match else "" for match in matches]
        self.own_units = {
            row.unit for row, symbol in zip(self.rows, self.symbols, strict=True) if symbol.own
        } - {-1}
        named = {*self.unit_capabilities, *(symbol.capability for symbol in self.symbols)}
        self.capabilities = named - {"", dispatch().default}
        self.complete = True
        self.left = sum(section.size for section in elf.sections if section.holds_code)  # bytes to read
        self.own, self.unnamed = Tally(), Tally()

    def _outside_dispatch(self, row: Function, symbol: SymbolFacts) -> bool:
        """Whether a function is the package's own and runs on every CPU. Of an inline one the linker keeps
        one copy, which may be that of a dispatched unit."""
        capability = symbol.capability or (self.unit_capabilities[row.unit] if row.unit >= 0 else "")
        if capability in self.capabilities or not (symbol.own or row.unit in self.own_units):
            return False
        single = row.binding == GLOBAL or row.unit >= 0 or capability == dispatch().default
        return single or not self.capabilities

    def done(self) -> CpuCode:
        for row, symbol in zip(self.rows, self.symbols, strict=True):
            if self.foreign or self._outside_dispatch(row, symbol):
                at, size = place_of(self.elf, row)
                self.complete &= size == row.size and size <= self.left
                size = min(size, self.left)
                self.left -= size
                self._count(self.unnamed if self.foreign else self.own, at, size, row)
        # A name may say that code is dispatched; without one, nothing does.
        named = any(symbol.own for symbol in self.symbols)
        if self.functions.stripped or not named:
            for at, size in self._gaps(self.rows if named or self.foreign else []):
                self.complete &= size <= MOST_UNNAMED
                self._count(self.unnamed, at, min(size, MOST_UNNAMED))
        return CpuCode(
            machine=self.elf.machine,
            complete=self.complete,
            own=self.own,
            unnamed=self.unnamed,
            dispatched=tuple(sorted(self.capabilities)),
        )

    def _count(self, tally: Tally, at: int, size: int, row: Function | None = None) -> None:
        """Add the code at a place, and keep the first example of each feature."""
        features, undecoded = needs_of_code(self.elf.machine, self.elf.source.read(at, size))
        tally.functions += 1
        tally.undecoded += undecoded
        for feature in features:
            if feature not in tally.examples:
                name = clipped(self.functions.name(row)) if row else NO_NAME
                tally.examples[feature] = f"{name} ({self.library})"

    def _gaps(self, rows: Sequence[Function]) -> Iterator[tuple[int, int]]:
        """Place and size of code between functions."""
        for section in self.elf.sections:
            if not section.holds_code:
                continue
            shift, at, end = section.offset - section.address, section.address, section.address + section.size
            for row in rows:
                if at < row.address < end:
                    yield at + shift, row.address - at
                if section.address <= row.address < end:
                    at = max(at, row.address + row.size)
            if at < end:
                yield at + shift, end - at
