"""CPU code in a library: the CPU features that code outside dispatch needs."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from operator import attrgetter
from typing import Literal, NamedTuple

from torchsmith.artifact import iced
from torchsmith.artifact.elf import GLOBAL, Elf, ElfMachine, Function, functions_of, place_of
from torchsmith.artifact.features import Use, scan_aarch64
from torchsmith.artifact.tables import Table, read_table

MOST_UNNAMED = 64 << 20  # bytes of code between two functions
NO_NAME = "(no name)"
X86_BRANCH = re.compile(rb"[\xe8\xe9]")  # CALL and JMP with 32 bits of distance
AARCH64_BRANCH = re.compile(rb"[\x14-\x17\x94-\x97]")  # the highest byte of B and BL
DISTANCE = struct.Struct("<i")

# Whose a function is: the package's own; its own too, but kept once for several units, some of them compiled
# per capability; or without a name.
CodeGroup = Literal["own", "shared", "unnamed"]


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
    spelled = sorted((f"{len(name)}{name}" for name in known.capabilities), key=len, reverse=True)
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


@dataclass(frozen=True, slots=True)
class Hit:
    """An instruction in a function that needs a feature."""

    feature: str
    machine: ElfMachine
    library: str
    function: str
    unit: str
    offset: int
    code: bytes
    caller: str = ""  # of a shared function: one outside dispatch


@dataclass
class Tally:
    """Counts over the functions of one group."""

    functions: int = 0
    undecoded: int = 0
    having: Counter[str] = field(default_factory=Counter)  # functions by feature
    hits: dict[str, Hit] = field(default_factory=dict)  # one of each feature; with a caller, if one has any

    def join(self, other: Tally) -> None:
        """Add the counts of another library."""
        self.functions += other.functions
        self.undecoded += other.undecoded
        self.having.update(other.having)
        self.hits = other.hits | self.hits | {name: hit for name, hit in other.hits.items() if hit.caller}

    @property
    def features(self) -> frozenset[str]:
        """What this code needs beyond the oldest CPU."""
        return frozenset(self.having)


@dataclass(frozen=True, slots=True)
class CpuCode:
    """The features that the CPU code of a library, or of several, needs."""

    machine: ElfMachine
    stripped: bool
    complete: bool  # every function was read
    groups: dict[CodeGroup, Tally]
    dispatched: tuple[str, ...]  # capabilities seen

    def group(self, name: CodeGroup) -> Tally:
        return self.groups.get(name, Tally())

    @property
    def features(self) -> frozenset[str]:
        """What its own code outside dispatch needs, with the shared functions that it is known to call."""
        called = {name for name, hit in self.group("shared").hits.items() if hit.caller}
        return self.group("own").features | called


def branch_targets(machine: ElfMachine, code: bytes, address: int) -> Iterator[int]:
    """The places that code calls or jumps to directly, and some that only look so on x86-64."""
    if machine == "x86_64":
        for match in X86_BRANCH.finditer(code, 0, max(0, len(code) - 4)):
            end = match.end()
            yield address + end + 4 + DISTANCE.unpack_from(code, end)[0]
        return
    for match in AARCH64_BRANCH.finditer(code[3::4]):
        at = 4 * match.start()
        distance = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
        yield address + at + 4 * (distance - (distance << 1 & 0x4000000))


def first_use(machine: ElfMachine, code: bytes, feature: str) -> Use:
    """The first instruction that needs a feature."""
    return iced.first_use_x86(code, feature) if machine == "x86_64" else scan_aarch64(code)[feature]


def needs_of_code(machine: ElfMachine, code: bytes) -> tuple[tuple[str, ...], bool]:
    """The features of code, and whether it has bytes that are not an instruction."""
    return iced.features_x86(code) if machine == "x86_64" else (tuple(scan_aarch64(code)), False)


def cpu_code(elf: Elf, library: str, spaces: OwnSpaces) -> CpuCode:
    """Read every function of a library that must run on each CPU."""
    return _CodeScan(elf, library, patterns_of(spaces)).done()


def _each_once(rows: list[Function]) -> list[Function]:
    """Functions by address, the last name of each; sorted by plain numbers, to save memory."""
    rows.sort(key=attrgetter("size"))
    rows.sort(key=attrgetter("address"))
    return [row for row, after in zip_longest(rows, rows[1:]) if after is None or after[:2] != row[:2]]


class _CodeScan:
    """One pass over a library's functions: the group of each, and what it needs."""

    def __init__(self, elf: Elf, library: str, patterns: SymbolPatterns) -> None:
        self.elf, self.library = elf, library
        self.functions = functions_of(elf)
        self.rows = _each_once(self.functions.rows)
        self.symbols = [facts_of_symbol(self.functions.raw_name(row), patterns) for row in self.rows]
        matches = (patterns.unit.search(unit) for unit in self.functions.units)
        self.unit_capabilities = [match[1] if match else "" for match in matches]
        self.own_units = {
            row.unit for row, symbol in zip(self.rows, self.symbols, strict=True) if symbol.own
        } - {-1}
        named = {*self.unit_capabilities, *(symbol.capability for symbol in self.symbols)}
        self.capabilities = named - {"", dispatch().default}
        self.complete = True
        self.left = sum(section.size for section in elf.sections if section.holds_code)  # bytes to read
        self.groups: dict[CodeGroup, Tally] = {}
        self.shared: dict[int, tuple[Function, tuple[str, ...]]] = {}  # by address, with features

    def _group(self, row: Function, symbol: SymbolFacts) -> CodeGroup | None:
        """Whose code a function is; None if it is another project's, or chosen at run time."""
        capability = symbol.capability or (self.unit_capabilities[row.unit] if row.unit >= 0 else "")
        if capability in self.capabilities or not (symbol.own or row.unit in self.own_units):
            return None
        # Of any other the linker keeps one copy, and a dispatched unit may have it too.
        single = row.binding == GLOBAL or row.unit >= 0 or capability == dispatch().default
        return "own" if single or not self.capabilities else "shared"

    def done(self) -> CpuCode:
        for row, symbol in zip(self.rows, self.symbols, strict=True):
            group = self._group(row, symbol)
            if group is not None:
                at, size = place_of(self.elf, row)
                self.complete &= size == row.size and size <= self.left
                size = min(size, self.left)
                self.left -= size
                self._count(group, at, size, row)
        # A name may say that code is dispatched; without one, nothing does.
        named = any(symbol.own for symbol in self.symbols)
        if self.functions.stripped or not named:
            for at, size in self._gaps(self.rows if named else []):
                self.complete &= size <= MOST_UNNAMED
                self._count("unnamed", at, min(size, MOST_UNNAMED))
        self._find_callers()
        return CpuCode(
            machine=self.elf.machine,
            stripped=self.functions.stripped,
            complete=self.complete,
            groups=self.groups,
            dispatched=tuple(sorted(self.capabilities)),
        )

    def _count(self, group: CodeGroup, at: int, size: int, row: Function | None = None) -> None:
        """Add the code at a place to its group, and keep the first example of each feature."""
        code = self.elf.source.read(at, size)
        features, undecoded = needs_of_code(self.elf.machine, code)
        tally = self.groups.setdefault(group, Tally())
        tally.functions += 1
        tally.undecoded += undecoded
        tally.having.update(features)
        if group == "shared" and row is not None and features:
            self.shared[row.address] = row, features
        for feature in features:
            if feature not in tally.hits:
                tally.hits[feature] = self._hit(feature, code, row)

    def _find_callers(self) -> None:
        """For each feature that only shared functions need, one of them that runs outside dispatch."""
        needed = self.groups.get("own", Tally()).features
        wanted = {feature for _, features in self.shared.values() for feature in features} - needed
        if not wanted or not self.complete:
            return  # functions that overlap could be read for ever
        for row, symbol in zip(self.rows, self.symbols, strict=True):
            if self._group(row, symbol) != "own":
                continue
            code = self.elf.source.read(*place_of(self.elf, row))
            for target in self.shared.keys() & set(branch_targets(self.elf.machine, code, row.address)):
                function, features = self.shared[target]
                body = self.elf.source.read(*place_of(self.elf, function))
                for feature in wanted.intersection(features):
                    hit = self._hit(feature, body, function)
                    self.groups["shared"].hits[feature] = replace(hit, caller=self.functions.name(row))
                wanted.difference_update(features)

    def _hit(self, feature: str, code: bytes, row: Function | None) -> Hit:
        use = first_use(self.elf.machine, code, feature)
        return Hit(
            feature=feature,
            machine=self.elf.machine,
            library=self.library,
            function=self.functions.name(row) if row else NO_NAME,
            unit=self.functions.units[row.unit] if row and row.unit >= 0 else "",
            offset=use.offset,
            code=use.code,
        )

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
