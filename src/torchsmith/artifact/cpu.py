"""CPU code in a library: what the part that must run everywhere asks of a CPU, by kind of unit."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple

from torchsmith.artifact.calls import call_sites, callers_of
from torchsmith.artifact.choosers import chosen_at_run_time
from torchsmith.artifact.elf import GLOBAL, Elf, ElfMachine, Function, code_of, functions_of, place_of
from torchsmith.artifact.features import Scan, facts, outline_atomics
from torchsmith.artifact.reading import read_needs, scan
from torchsmith.artifact.tables import Table, read_table
from torchsmith.artifact.units import UnitLayout, UnitPlace, kind_of, of_nvcc, spans_of, stands_apart

LONGEST_FUNCTION = 256 << 10
WINDOW = 60  # functions with vector code that stand for a unit where none is named
ALIGNED, MOSTLY = 16, 0.9  # where functions begin that were compiled for speed, and how many of them do
# What nvcc and clang put into the host half of a unit, and what code there calls that launches in clusters.
LAUNCHES = (
    "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration",
    "__cudaGetKernel",
    "__cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaFuncSetAttribute",
    "__hipPushCallConfiguration",
    "__hipPopCallConfiguration",
)
FEW = 3  # how many examples a report keeps of a kind
MOST_SHARED = 64  # shared functions whose callers are looked for

# What a function is: of a kind of unit; of no unit that is known; or kept once for several units, of which at
# least one is compiled per capability.
CodeGroup = Literal["c++", "cuda", "unplaced", "shared", "runtime", "assembly"]
JUDGED: tuple[CodeGroup, ...] = ("c++", "unplaced", "cuda")
FLAGGED: tuple[CodeGroup, ...] = ("c++", "unplaced")  # what gets the flags of a build in every case


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
    """Patterns over mangled names, as bytes: hundreds of thousands are looked at."""

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
    """The capability that a function's name says it was compiled for, empty where it says none."""
    spelled = patterns.capability.search(name)
    if spelled:
        return spelled[0].decode().lstrip("0123456789")
    suffix = patterns.suffix.search(name) or (b"." in name and patterns.copy.search(name))
    return suffix[1].decode().upper() if suffix else ""


def capability_of_unit(unit: str, patterns: SymbolPatterns) -> str:
    found = patterns.unit.search(unit)
    return found[1] if found else ""


class SymbolFacts(NamedTuple):
    """What a function's name tells; equal ones are one value, for names are longer than all the rest."""

    own: bool
    of_own_types: bool
    apart: bool
    capability: str


def facts_of_symbol(name: bytes, patterns: SymbolPatterns) -> SymbolFacts:
    own = bool(patterns.own.match(name))
    of_own = not own and bool(patterns.of_own_types.match(name))
    return _one(own, of_own, stands_apart(name), capability_of(name, patterns))


_one = cache(SymbolFacts)


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
    """What was seen in functions of one group."""

    functions: int = 0
    size: int = 0
    undecoded: int = 0
    having: Counter[str] = field(default_factory=Counter)  # functions by feature
    sightings: dict[str, list[Hit]] = field(default_factory=dict)

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
        return frozenset(self.having) - facts(machine).older


@dataclass
class CodeBlock:
    """Functions that were compiled together: a unit, or where no unit is named, neighbours."""

    unit: str
    having: Counter[str] = field(default_factory=Counter)  # functions by feature


@dataclass(frozen=True, slots=True)
class CpuCode:
    """What a library's CPU code asks for."""

    machine: ElfMachine
    stripped: bool
    complete: bool  # every function was looked at
    groups: dict[CodeGroup, Tally]
    blocks: list[CodeBlock]  # of the groups that should have the flags
    halves_told: bool  # host halves of CUDA units, where there are any, are told from the rest
    for_size: bool  # compiled to be small, which shows few instructions of any set
    dispatched: tuple[str, ...]  # capabilities seen
    outline_atomics: bool


def cpu_code(elf: Elf, library: str, spaces: OwnSpaces, *, cuda: bool = False) -> CpuCode:
    """Look at every function of a library that must run everywhere; `cuda`: it holds GPU code."""
    return _Reading(elf, library, patterns_of(spaces), cuda).done()


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
    """One look at a library's functions: whose each is, then what it needs, then what that says of others."""

    def __init__(self, elf: Elf, library: str, patterns: SymbolPatterns, cuda: bool) -> None:
        self.elf, self.library, self.patterns, self.cuda = elf, library, patterns, cuda
        self.facts = facts(elf.machine)
        self.functions = functions_of(elf)
        self.rows = _each_once(self.functions.rows)
        self.told = [facts_of_symbol(self.functions.raw_name(row), patterns) for row in self.rows]
        self.spans = spans_of(self.rows, [told.apart for told in self.told], len(self.functions.units))
        self.layout = UnitLayout.of(self._places(), self._names_dispatch())
        self.capabilities: set[str] = set()
        self.group = [self._group(index) for index in range(len(self.rows))]
        self.outline = frozenset(self._outline())
        self.complete = True
        self.needs: list[tuple[str, ...]] = [()] * len(self.rows)  # features of each function
        self.lost: set[int] = set()
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
        self._read_needs()
        halves_told = self._find_host_halves()
        for index in chosen_at_run_time(self.elf, self.rows, self._judged_needs()):
            self.group[index] = None
        self._count()
        self._find_callers()
        return CpuCode(
            machine=self.elf.machine,
            stripped=self.functions.stripped,
            complete=self.complete,
            groups=self.groups,
            blocks=self._blocks(),
            halves_told=halves_told,
            for_size=self._for_size(),
            dispatched=tuple(sorted(self.capabilities)),
            outline_atomics=bool(self.outline),
        )

    def _read_needs(self) -> None:
        rows = array("Q")  # a library may name a million functions
        for index in self._grouped():
            row = self.rows[index]
            rows.extend((*place_of(self.elf, row, LONGEST_FUNCTION), row.address))
        found = read_needs(self.elf.source, self.elf.machine, self.outline, rows)
        for index, (features, undecoded) in zip(self._grouped(), found, strict=True):
            self.needs[index] = features
            if undecoded:
                self.lost.add(index)

    def _grouped(self) -> Iterator[int]:
        """The functions that are looked at."""
        return (index for index, group in enumerate(self.group) if group is not None)

    def _scan(self, index: int) -> Scan:
        row = self.rows[index]
        return scan(self.elf.machine, code_of(self.elf, row, LONGEST_FUNCTION), row.address, self.outline)

    def _judged_needs(self) -> dict[int, tuple[str, ...]]:
        return {index: self.needs[index] for index, group in enumerate(self.group) if group in JUDGED}

    def _find_host_halves(self) -> bool:
        """Functions of no known unit that lack the flags and stand where kernels are launched are of host
        halves: a linker lays down object after object, and a unit has the flags throughout or not at all.
        Whether host halves could be told from the rest."""
        if not self.cuda or "unplaced" not in self.group:
            return True
        for index, row in enumerate(self.rows):
            if self.group[index] == "unplaced" and of_nvcc(self.functions.raw_name(row)):
                self.group[index] = "cuda"
        placed = [
            row.address
            for row, group, told in zip(self.rows, self.group, self.told, strict=True)
            if group == "cuda" and not told.apart
        ]
        marks = sorted([*placed, *call_sites(self.elf, LAUNCHES)])
        run: list[int] = []  # functions without the flags since the last one of a C++ unit
        begin = 0
        for index, (row, group) in enumerate(zip(self.rows, self.group, strict=True)):
            if self.told[index].apart or group not in FLAGGED:
                continue
            if group == "c++" or self.facts.modern in self.needs[index]:
                self._take_for_halves(run, marks, begin, row.address)
                run, begin = [], row.address + row.size
            else:
                run.append(index)
        self._take_for_halves(run, marks, begin, 1 << 64)
        return bool(marks)

    def _take_for_halves(self, run: list[int], marks: list[int], begin: int, end: int) -> None:
        if bisect_left(marks, begin) < bisect_left(marks, end):
            for index in run:
                self.group[index] = "cuda"

    def _count(self) -> None:
        """What each group shows, with the first examples of each feature."""
        kept: dict[tuple[CodeGroup, str], list[int]] = {}
        size, most = 0, sum(section.size for section in self.elf.sections if section.holds_code)
        for index, row in enumerate(self.rows):
            group = self.group[index]
            if group is None:
                continue
            size += min(row.size, LONGEST_FUNCTION)
            tally = self.groups.setdefault(group, Tally())
            tally.functions += 1
            tally.size += row.size
            tally.undecoded += index in self.lost
            tally.having.update(self.needs[index])
            for feature in self.needs[index]:
                examples = kept.setdefault((group, feature), [])
                if len(examples) < (MOST_SHARED if group == "shared" else FEW):
                    examples.append(index)
        for (group, feature), examples in kept.items():
            self.groups[group].sightings[feature] = [self._sighting(feature, index) for index in examples]
        self.complete = size <= most

    def _sighting(self, feature: str, index: int) -> Hit:
        row, use = self.rows[index], self._scan(index).first[feature]
        where = (self.library, self.functions.name(row), self.unit(index), use.offset)
        return Hit(feature, self.elf.machine, *where, use.code.hex(" "), row.address)

    def _blocks(self) -> list[CodeBlock]:
        by_unit: dict[int, CodeBlock] = {}
        windows = [CodeBlock("")]
        for index, needs in enumerate(self.needs):
            if self.group[index] not in FLAGGED or not needs:
                continue
            first, last = self.spans[index]
            if first == last >= 0:
                by_unit.setdefault(first, CodeBlock(self.functions.units[first])).having.update(needs)
            else:
                windows[-1].having.update(needs)
                if windows[-1].having[self.facts.modern] >= WINDOW:
                    windows.append(CodeBlock(""))
        return [block for block in (*by_unit.values(), *windows) if block.having]

    def _for_size(self) -> bool:
        """Whether functions begin anywhere, as compilers lay them down that were asked for small code."""
        starts = [
            row.address % ALIGNED == 0
            for row, told, group in zip(self.rows, self.told, self.group, strict=True)
            if group in FLAGGED and not told.apart
        ]
        return sum(starts) < MOSTLY * len(starts)

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
