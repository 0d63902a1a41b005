"""CPU code in a library: the CPU features that code outside dispatch needs, by kind of unit."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from operator import attrgetter
from typing import Literal, NamedTuple

from torchsmith.artifact.calls import callers_of
from torchsmith.artifact.choosers import chosen_at_run_time
from torchsmith.artifact.elf import (
    GLOBAL,
    Elf,
    ElfMachine,
    Function,
    code_of,
    functions_of,
    place_of,
)
from torchsmith.artifact.reading import read_needs, scan
from torchsmith.artifact.tables import Table, read_table
from torchsmith.artifact.units import UnitLayout, UnitPlace, kind_of, spans_of, stands_apart

MOST_EXAMPLES = 3  # of a feature, in a report
MOST_SHARED = 64  # shared functions whose callers are searched

MOST_SMALL = 8 << 10  # bytes of code in a library that is read whole, whatever it names
MOST_UNNAMED = 64 << 20  # bytes of code between two functions
NO_NAME = "(no name)"

# What a function is: of a unit of the package; of no unit that is known; code between functions; or kept once
# for several units, of which at least one is compiled per capability.
CodeGroup = Literal["own", "unplaced", "unnamed", "shared", "runtime", "assembly"]
JUDGED: tuple[CodeGroup, ...] = ("own", "unplaced")


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


# What may stand before a name: a guard, a thunk, a nested or qualified name.
PREFIX = r"_Z(?:GV|GR|T[hvW][n\d_]*+|[ZNKVROL])*+"


@dataclass(frozen=True, slots=True)
class OwnSpaces:
    """C++ namespaces of a package and of what it builds on; `others`: all that is no known library's too."""

    named: tuple[str, ...]
    others: bool = False


def _mangled(spaces: Iterable[str]) -> str:
    return "|".join(f"{len(space)}{space}" for space in spaces)


@cache
def patterns_of(spaces: OwnSpaces) -> SymbolPatterns:
    known = dispatch()
    own = _mangled(spaces.named)
    spelled = sorted((f"{len(name)}{name}" for name in known.capabilities), key=len, reverse=True)
    # St, Sa, Ss ... are std and its parts.
    begins = rf"(?!S[tabsiod]|{_mangled(known.foreign)})" if spaces.others else f"(?:{own})"
    return SymbolPatterns(
        own=re.compile(rf"{PREFIX}{begins}|(?:{known.c_names})".encode()),
        of_own_types=re.compile(rf"_Z.*?N[KVRO]*(?:{own})\d".encode()),
        capability=re.compile("|".join(spelled).encode()),
        suffix=re.compile(known.by_suffix.encode()),
        copy=re.compile(known.by_copy.encode()),
        unit=re.compile(rf"\.({'|'.join(known.capabilities)})\.cpp$"),
    )


def capability_of(name: bytes, patterns: SymbolPatterns) -> str:
    """The capability that a function was compiled for, by its name; empty where the name has none."""
    spelled = patterns.capability.search(name)
    if spelled:
        return spelled[0].decode().lstrip("0123456789")
    suffix = patterns.suffix.search(name) or (b"." in name and patterns.copy.search(name))
    return suffix[1].decode().upper() if suffix else ""


def capability_of_unit(unit: str, patterns: SymbolPatterns) -> str:
    match = patterns.unit.search(unit)
    return match[1] if match else ""


class SymbolFacts(NamedTuple):
    """What is known from a function's name; equal ones are one object, to save memory."""

    own: bool
    of_own_types: bool
    apart: bool
    capability: str


def facts_of_symbol(name: bytes, patterns: SymbolPatterns) -> SymbolFacts:
    own = bool(patterns.own.match(name))
    of_own = not own and bool(patterns.of_own_types.match(name))
    return _interned(own, of_own, stands_apart(name), capability_of(name, patterns))


_interned = cache(SymbolFacts)


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """An instruction in a function that needs a feature."""

    feature: str
    machine: ElfMachine
    library: str
    function: str
    unit: str
    offset: int
    code: str
    address: int = 0  # of the function
    caller: str = ""  # for shared functions: one outside dispatch that calls it


@dataclass
class Tally:
    """Counts over the functions of one group."""

    functions: int = 0
    undecoded: int = 0
    having: Counter[str] = field(default_factory=Counter)  # functions by feature
    hits: dict[str, list[Hit]] = field(default_factory=dict)

    def join(self, other: Tally) -> None:
        """Add the counts of another library."""
        self.functions += other.functions
        self.undecoded += other.undecoded
        self.having.update(other.having)
        for feature, hits in other.hits.items():
            self.hits.setdefault(feature, []).extend(hits)

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
    def judged(self) -> Tally:
        """All that must run on every CPU, by whatever unit it came."""
        whole = Tally()
        for name in JUDGED:
            whole.join(self.group(name))
        return whole

    @property
    def features(self) -> frozenset[str]:
        """What running it needs, including shared functions that are known to be called."""
        shared = self.group("shared").hits.items()
        called = {feature for feature, hits in shared if any(hit.caller for hit in hits)}
        return self.judged.features | called


def cpu_code(elf: Elf, library: str, spaces: OwnSpaces) -> CpuCode:
    """Read every function of a library that must run on each CPU."""
    return _CodeScan(elf, library, patterns_of(spaces)).done()


def _each_once(rows: list[Function]) -> list[Function]:
    """Functions by address, local ones first, the last name of each; by plain numbers, to save memory."""
    rows.sort(key=attrgetter("size"))
    rows.sort(key=attrgetter("address"))
    unique = [row for row, after in zip_longest(rows, rows[1:]) if after is None or after[:2] != row[:2]]
    unique.sort(key=lambda row: row.unit < 0)
    unique.sort(key=attrgetter("address"))
    return unique


class _CodeScan:
    """One pass over a library's functions: the group of each, its needs, then what follows for others."""

    def __init__(self, elf: Elf, library: str, patterns: SymbolPatterns) -> None:
        self.elf, self.library, self.patterns = elf, library, patterns
        self.functions = functions_of(elf)
        self.rows = _each_once(self.functions.rows)
        self.symbols = [facts_of_symbol(self.functions.raw_name(row), patterns) for row in self.rows]
        self.spans = spans_of(self.rows, [symbol.apart for symbol in self.symbols], len(self.functions.units))
        self.layout = UnitLayout.of(self._places(), self._names_dispatch())
        self.capabilities: set[str] = set()
        self.group = [self._group(index) for index in range(len(self.rows))]
        self.code_size = sum(section.size for section in elf.sections if section.holds_code)
        self.complete = True
        self.needs: list[tuple[str, ...]] = [()] * len(self.rows)  # features of each function
        self.lost: set[int] = set()
        self.groups: dict[CodeGroup, Tally] = {}

    def _places(self) -> list[UnitPlace]:
        """What each unit is; one with a function of PyTorch's own is its own."""
        own = {
            first
            for (first, last), symbol in zip(self.spans, self.symbols, strict=True)
            if first == last >= 0 and symbol.own
        }
        return [self._place(unit, index in own) for index, unit in enumerate(self.functions.units)]

    def _place(self, unit: str, own: bool) -> UnitPlace:
        if capability_of_unit(unit, self.patterns) not in ("", dispatch().default):
            return "dispatched"
        kind = kind_of(unit)
        if own or kind == "cuda":
            return "own"
        return "foreign" if kind == "c++" else kind

    def _names_dispatch(self) -> bool:
        """Whether a library without units has dispatched code nevertheless."""
        plain = ("", dispatch().default)
        return not self.functions.units and any(symbol.capability not in plain for symbol in self.symbols)

    def _group(self, index: int) -> CodeGroup | None:
        """Whose code a function is; none where it is another project's, or chosen at run time."""
        row, symbol = self.rows[index], self.symbols[index]
        own, capability = symbol.own or symbol.of_own_types, symbol.capability
        place = self.layout.place(*self.spans[index], own)
        if capability not in ("", dispatch().default) or (row.unit >= 0 and place == "dispatched"):
            unit = self.functions.units[row.unit] if not capability else ""
            self.capabilities.add(capability or capability_of_unit(unit, self.patterns))
            return None
        if place == "own":
            return "own"
        # Where the compiler's start files alone are named, all other code seems to be theirs.
        if (place == "runtime" or place == "assembly") and not (own and row.unit < 0):
            return place
        if not own:
            return None
        single = row.binding == GLOBAL or capability == dispatch().default  # so from no dispatched unit
        return "unplaced" if single or place not in ("any", "dispatched") else "shared"

    def done(self) -> CpuCode:
        self._read_needs()
        judged = {index: self.needs[index] for index, group in enumerate(self.group) if group in JUDGED}
        for index in chosen_at_run_time(self.elf, self.rows, judged):
            self.group[index] = None
        self._count()
        if self.functions.stripped or self.code_size <= MOST_SMALL:
            self._read_unnamed(self.rows if any(group in JUDGED for group in self.groups) else [])
        self._find_callers()
        return CpuCode(
            machine=self.elf.machine,
            stripped=self.functions.stripped,
            complete=self.complete,
            groups=self.groups,
            dispatched=tuple(sorted(self.capabilities)),
        )

    def _read_needs(self) -> None:
        places = array("Q")  # a library may name a million functions
        left = self.code_size
        for index in self._grouped():
            at, size = place_of(self.elf, self.rows[index])
            self.complete &= size == self.rows[index].size and size <= left
            size = min(size, left)
            left -= size
            places.extend((at, size))
        for index, (features, undecoded) in zip(self._grouped(), self._read(places), strict=True):
            self.needs[index] = features
            if undecoded:
                self.lost.add(index)

    def _read(self, places: array[int]) -> Iterator[tuple[tuple[str, ...], bool]]:
        return read_needs(self.elf.source, self.elf.machine, places)

    def _read_unnamed(self, rows: Sequence[Function]) -> None:
        """Code between functions, of which nothing says whether it is chosen at run time."""
        gaps = list(self._gaps(rows))
        places, tally = array("Q"), Tally()
        for _, at, size in gaps:
            self.complete &= size <= MOST_UNNAMED
            places.extend((at, min(size, MOST_UNNAMED)))
        for (address, at, size), (features, undecoded) in zip(gaps, self._read(places), strict=True):
            tally.functions += 1
            tally.undecoded += undecoded
            tally.having.update(features)
            for feature in features:
                if feature not in tally.hits:
                    code = self.elf.source.read(at, size)
                    tally.hits[feature] = [self._hit(feature, code, NO_NAME, "", address)]
        if tally.functions:
            self.groups["unnamed"] = tally

    def _gaps(self, rows: Sequence[Function]) -> Iterator[tuple[int, int, int]]:
        """Address, place and size of code between functions."""
        for section in self.elf.sections:
            if not section.holds_code:
                continue
            at, end = section.address, section.address + section.size
            for row in rows:
                if at < row.address < end:
                    yield at, section.offset + at - section.address, row.address - at
                if section.address <= row.address < end:
                    at = max(at, row.address + row.size)
            if at < end:
                yield at, section.offset + at - section.address, end - at

    def _grouped(self) -> Iterator[int]:
        """The functions that are read."""
        return (index for index, group in enumerate(self.group) if group is not None)

    def _count(self) -> None:
        """Count each group's features, and keep the first examples of each."""
        examples_of: dict[tuple[CodeGroup, str], list[int]] = {}
        for index, group in enumerate(self.group):
            if group is None:
                continue
            tally = self.groups.setdefault(group, Tally())
            tally.functions += 1
            tally.undecoded += index in self.lost
            tally.having.update(self.needs[index])
            for feature in self.needs[index]:
                examples = examples_of.setdefault((group, feature), [])
                if len(examples) < (MOST_SHARED if group == "shared" else MOST_EXAMPLES):
                    examples.append(index)
        for (group, feature), examples in examples_of.items():
            self.groups[group].hits[feature] = [self._hit_in(feature, index) for index in examples]

    def _hit_in(self, feature: str, index: int) -> Hit:
        row = self.rows[index]
        name, unit = self.functions.name(row), self.unit(index)
        return self._hit(feature, code_of(self.elf, row), name, unit, row.address)

    def _hit(self, feature: str, code: bytes, function: str, unit: str, address: int) -> Hit:
        use = scan(self.elf.machine, code)[feature]
        return Hit(
            feature=feature,
            machine=self.elf.machine,
            library=self.library,
            function=function,
            unit=unit,
            offset=use.offset,
            code=use.code.hex(" "),
            address=address,
        )

    def unit(self, index: int) -> str:
        first, last = self.spans[index]
        return self.functions.units[first] if first == last >= 0 else ""

    def _find_callers(self) -> None:
        """For features that only shared functions need, one such function that runs outside dispatch."""
        shared = self.groups.get("shared")
        if shared is None:
            return
        needed = {feature for group in JUDGED for feature in self.groups.get(group, Tally()).having}
        wanted = [{hit.address for hit in shared.hits[feature]} for feature in shared.having.keys() - needed]
        judged = (row for row, group in zip(self.rows, self.group, strict=True) if group in JUDGED)
        calling = callers_of(self.elf, judged, wanted) if wanted else {}
        callers = {address: self.functions.name(function) for address, function in calling.items()}
        for feature, hits in shared.hits.items():
            named = [replace(hit, caller=callers.get(hit.address, "")) for hit in hits]
            shared.hits[feature] = sorted(named, key=lambda hit: not hit.caller)[:MOST_EXAMPLES]
