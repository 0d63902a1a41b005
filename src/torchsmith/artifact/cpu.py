"""CPU code in a library: what the part that must run everywhere asks of a CPU, by kind of unit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple

from torchsmith.artifact import iced
from torchsmith.artifact.elf import GLOBAL, Elf, ElfMachine, Function, code_of, functions_of
from torchsmith.artifact.features import Scan, facts, outline_atomics, scan_aarch64
from torchsmith.artifact.tables import Table, read_table
from torchsmith.artifact.units import UnitLayout, UnitPlace, callers_of, kind_of, spans_of, stands_apart

LONGEST_FUNCTION = 256 << 10
FEW = 3  # how many examples a report keeps of a kind
MOST_SHARED = 64  # shared functions whose callers are looked for

# What a function is: of a kind of unit; of no unit that is known; or kept once for several units, of which at
# least one is compiled per capability.
CodeGroup = Literal["c++", "cuda", "unplaced", "shared", "runtime", "assembly"]
JUDGED: tuple[CodeGroup, ...] = ("c++", "unplaced", "cuda")  # the most telling first


class Dispatch(Table, frozen=True):
    """data/dispatch.toml."""

    source: str
    foreign: tuple[str, ...]
    c_names: str
    by_suffix: str
    default: str
    capabilities: tuple[str, ...]


@cache
def dispatch() -> Dispatch:
    return read_table("dispatch.toml", Dispatch)


@dataclass(frozen=True, slots=True)
class SymbolPatterns:
    """Patterns over mangled names, as bytes: hundreds of thousands are looked at."""

    own: re.Pattern[bytes]
    of_own_types: re.Pattern[bytes]
    capability: re.Pattern[bytes]
    suffix: re.Pattern[bytes]
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
        unit=re.compile(rf"\.({'|'.join(known.capabilities)})\.cpp$"),
    )


def capability_of(name: bytes, patterns: SymbolPatterns) -> str:
    """The capability that a function's name says it was compiled for, empty where it says none."""
    found = patterns.capability.search(name)
    if found:
        return found[0].decode().lstrip("0123456789")
    suffixed = patterns.suffix.search(name)
    return (suffixed[1] or suffixed[2]).decode().upper() if suffixed else ""


def capability_of_unit(unit: str, patterns: SymbolPatterns) -> str:
    found = patterns.unit.search(unit)
    return found[1] if found else ""


class Told(NamedTuple):
    """What a function's name tells; equal ones are one value, for names are longer than all the rest."""

    own: bool
    of_own_types: bool
    apart: bool
    capability: str


def told_by(name: bytes, patterns: SymbolPatterns) -> Told:
    own = bool(patterns.own.match(name))
    of_own = not own and bool(patterns.of_own_types.match(name))
    return _one(own, of_own, stands_apart(name), capability_of(name, patterns))


_one = cache(Told)


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
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
    """What was seen in functions of one group."""

    functions: int = 0
    size: int = 0
    undecoded: int = 0
    having: Counter[str] = field(default_factory=Counter)  # functions by feature
    sightings: dict[str, list[Sighting]] = field(default_factory=dict)

    def join(self, other: Tally) -> None:
        """Add what another library's functions showed."""
        self.functions += other.functions
        self.size += other.size
        self.undecoded += other.undecoded
        self.having.update(other.having)
        for feature, seen in other.sightings.items():
            self.sightings.setdefault(feature, []).extend(seen)

    def features(self, machine: ElfMachine) -> frozenset[str]:
        """What this code needs beyond the oldest CPU."""
        return frozenset(self.having).difference((facts(machine).legacy,))


@dataclass(frozen=True, slots=True)
class CpuCode:
    """What a library's CPU code asks for."""

    machine: ElfMachine
    stripped: bool
    complete: bool  # every function was looked at
    groups: dict[CodeGroup, Tally]
    dispatched: tuple[str, ...]  # capabilities seen
    outline_atomics: bool


def scan(machine: ElfMachine, code: bytes, address: int = 0, outline: frozenset[int] = frozenset()) -> Scan:
    """What a function needs; on AArch64 also whether it calls one of the outline atomics."""
    return iced.scan_x86(code) if machine == "x86_64" else scan_aarch64(code, address, outline)


def cpu_code(elf: Elf, library: str, spaces: OwnSpaces) -> CpuCode:
    """Look at every function of a library that must run everywhere."""
    return _Reading(elf, library, patterns_of(spaces)).done()


def _each_once(rows: list[Function]) -> list[Function]:
    """Functions by address, local ones first, the last name of each; by plain numbers, to save memory."""
    rows.sort(key=attrgetter("size"))
    rows.sort(key=attrgetter("address"))
    following = iter(rows[1:])
    kept = [row for row in rows if (after := next(following, None)) is None or after[:2] != row[:2]]
    kept.sort(key=lambda row: row.unit < 0)
    kept.sort(key=attrgetter("address"))
    return kept


class _Reading:
    """One look at a library's functions."""

    def __init__(self, elf: Elf, library: str, patterns: SymbolPatterns) -> None:
        self.elf, self.library, self.patterns = elf, library, patterns
        self.functions = functions_of(elf)
        self.rows = _each_once(self.functions.rows)
        self.told = [told_by(self.functions.raw_name(row), patterns) for row in self.rows]
        self.spans = spans_of(self.rows, [told.apart for told in self.told], len(self.functions.units))
        self.layout = UnitLayout.of(self._places(), self._names_dispatch())
        self.capabilities: set[str] = set()
        self.group = [self._group(index) for index in range(len(self.rows))]
        self.outline = frozenset(self._outline())
        self.groups: dict[CodeGroup, Tally] = {}

    def _places(self) -> list[UnitPlace]:
        """What each unit is; one with a function of PyTorch's own is its own."""
        own = {
            first
            for (first, last), told in zip(self.spans, self.told, strict=True)
            if first == last >= 0 and told.own
        }
        return [self._place(unit, index in own) for index, unit in enumerate(self.functions.units)]

    def _place(self, unit: str, own: bool) -> UnitPlace:
        if capability_of_unit(unit, self.patterns) not in ("", dispatch().default):
            return "dispatched"
        kind = kind_of(unit)
        return kind if kind != "c++" and not (own and kind != "cuda") else "c++" if own else "foreign"

    def _names_dispatch(self) -> bool:
        """Whether a library without units has dispatched code nevertheless."""
        plain = ("", dispatch().default)
        return not self.functions.units and any(told.capability not in plain for told in self.told)

    def _outline(self) -> Iterator[int]:
        for section in self.elf.sections if self.elf.machine == "aarch64" else ():
            if section.holds_code:
                code = self.elf.source.read(section.offset, section.size)
                yield from outline_atomics(code, section.address)

    def _group(self, index: int) -> CodeGroup | None:
        """Whose code a function is; none where it is another project's, or chosen at run time."""
        row, told = self.rows[index], self.told[index]
        own, capability = told.own or told.of_own_types, told.capability
        place = self.layout.place(*self.spans[index], own)
        if capability not in ("", dispatch().default) or (row.unit >= 0 and place == "dispatched"):
            unit = self.functions.units[row.unit] if not capability else ""
            self.capabilities.add(capability or capability_of_unit(unit, self.patterns))
            return None
        if place == "c++" or place == "cuda":
            return place
        # Where the compiler's start files alone are named, all other code seems to be theirs.
        if (place == "runtime" or place == "assembly") and not (own and row.unit < 0):
            return place
        if not own:
            return None
        single = row.binding == GLOBAL or capability == dispatch().default  # so from no dispatched unit
        return "unplaced" if single or place not in ("any", "dispatched") else "shared"

    def done(self) -> CpuCode:
        most = sum(section.size for section in self.elf.sections if section.holds_code)
        size = 0
        for index, row in enumerate(self.rows):
            group = self.group[index]
            if group is None:
                continue
            code = code_of(self.elf, row, LONGEST_FUNCTION)
            size += len(code)
            if size > most:  # functions that overlap: no compiler made this
                break
            self._add(group, index, code)
        self._find_callers()
        return CpuCode(
            machine=self.elf.machine,
            stripped=self.functions.stripped,
            complete=size <= most,
            groups=self.groups,
            dispatched=tuple(sorted(self.capabilities)),
            outline_atomics=bool(self.outline),
        )

    def _add(self, group: CodeGroup, index: int, code: bytes) -> None:
        row = self.rows[index]
        tally = self.groups.setdefault(group, Tally())
        seen = scan(self.elf.machine, code, row.address, self.outline)
        tally.functions += 1
        tally.size += len(code)
        tally.undecoded += seen.lost
        most = MOST_SHARED if group == "shared" else FEW
        for feature, use in seen.first.items():
            tally.having[feature] += 1
            kept = tally.sightings.setdefault(feature, [])
            if len(kept) < most:
                where = (self.library, self.functions.name(row), self.unit(index), use.offset)
                kept.append(Sighting(feature, self.elf.machine, *where, use.code.hex(" "), row.address))

    def unit(self, index: int) -> str:
        first, last = self.spans[index]
        return self.functions.units[first] if first == last >= 0 else ""

    def _find_callers(self) -> None:
        """For features that only shared functions need, one such function that runs outside dispatch."""
        shared = self.groups.get("shared")
        if shared is None:
            return
        needed = {feature for group in JUDGED for feature in self.groups.get(group, Tally()).having}
        wanted = [
            {sighting.address for sighting in shared.sightings[feature]}
            for feature in shared.having.keys() - needed
        ]
        judged = (row for row, group in zip(self.rows, self.group, strict=True) if group in JUDGED)
        found = callers_of(self.elf, judged, wanted) if wanted else {}
        callers = {address: self.functions.name(function) for address, function in found.items()}
        for feature, seen in shared.sightings.items():
            told = [replace(one, caller=callers.get(one.address, "")) for one in seen]
            shared.sightings[feature] = sorted(told, key=lambda one: not one.caller)[:FEW]
