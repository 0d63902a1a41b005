"""CPU code in a library: what the part that must run everywhere asks of a CPU."""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import msgspec

from torchsmith.artifact.elf import GLOBAL, Elf, Function, Functions, Machine, code_of, functions_of
from torchsmith.artifact.features import DATA, LEGACY_SSE, Use, uses
from torchsmith.artifact.x86 import Lost

SAMPLE = 6000
SAMPLE_BYTES = 48 << 20  # code of a sample, however long its functions claim to be
LONGEST_FUNCTION = 256 << 10
CONFIDENCE = 0.95
OUTLINE_ATOMICS = (b"\0__aarch64_ldadd", b"\0__aarch64_cas", b"\0__aarch64_swp")
FEW = 3  # how many examples a report keeps of a kind

Group = Literal["undispatched", "shared", "dispatched", "other"]


class Dispatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """data/dispatch.toml."""

    source: str
    own: tuple[str, ...]
    by_suffix: str
    default: str
    capabilities: tuple[str, ...]


@cache
def dispatch() -> Dispatch:
    return msgspec.convert(tomllib.loads((DATA / "dispatch.toml").read_text()), Dispatch)


@cache
def _own_name() -> re.Pattern[str]:
    return re.compile(rf"_Z(?:GV|GR|T[hvW][n\d_]*|[ZNKVROL])*(?:{'|'.join(dispatch().own)})")


@cache
def _capability_in_name() -> re.Pattern[str]:
    spelled = sorted((f"{len(name)}{name}" for name in dispatch().capabilities), key=len, reverse=True)
    return re.compile("|".join(spelled))


@cache
def _capability_of_suffix() -> re.Pattern[str]:
    return re.compile(dispatch().by_suffix)


@cache
def _capability_of_unit() -> re.Pattern[str]:
    return re.compile(rf"\.({'|'.join(dispatch().capabilities)})\.cpp$")


def capability_of(name: str, unit: str) -> str:
    """The capability that a function was compiled for, empty where it was compiled once."""
    named = _capability_in_name().search(name)
    if named:
        return named[0].lstrip("0123456789")
    found = _capability_of_unit().search(unit) or _capability_of_suffix().search(name)
    return found[1].upper() if found else ""


def group_of(name: str, unit: str, function: Function) -> Group:
    """Whose code a function is, by its mangled name, its source file and its binding.

    A global function exists once, so it comes from no file that is compiled per capability. An inline
    function exists in many, and the linker keeps any one copy: those are shared, and judged apart.
    """
    capability = capability_of(name, unit)
    if capability:
        return "undispatched" if capability == dispatch().default else "dispatched"
    if not _own_name().match(name):
        return "other"
    return "undispatched" if unit or function.binding == GLOBAL else "shared"


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """An instruction in a function that needs a feature."""

    feature: str
    machine: Machine
    library: str
    function: str
    unit: str
    offset: int
    code: str


@dataclass
class Tally:
    """What was seen in functions of one group."""

    functions: int = 0
    size: int = 0
    undecoded: int = 0
    having: Counter[str] = field(default_factory=Counter)  # functions by feature
    sightings: dict[str, list[Sighting]] = field(default_factory=dict)

    def add(self, machine: Machine, code: bytes, library: str, name: str, unit: str) -> None:
        """Look at one function."""
        self.functions += 1
        self.size += len(code)
        first: dict[str, Use] = {}
        try:
            for use in uses(machine, code):
                for feature in use.features:
                    first.setdefault(feature, use)
        except Lost:
            self.undecoded += 1
        for feature, use in first.items():
            self.having[feature] += 1
            seen = self.sightings.setdefault(feature, [])
            if len(seen) < FEW:
                seen.append(Sighting(feature, machine, library, name, unit, use.offset, use.code.hex(" ")))

    def join(self, other: Tally) -> None:
        """Add what another library's functions showed."""
        self.functions += other.functions
        self.size += other.size
        self.undecoded += other.undecoded
        self.having.update(other.having)
        for feature, seen in other.sightings.items():
            own = self.sightings.setdefault(feature, [])
            own.extend(seen[: FEW - len(own)])

    @property
    def features(self) -> frozenset[str]:
        """What this code needs beyond the oldest CPU."""
        return frozenset(self.having).difference((LEGACY_SSE,))


@dataclass(frozen=True, slots=True)
class CpuCode:
    """What a library's CPU code asks for."""

    machine: Machine
    functions: int  # all that are named
    candidates: int  # of PyTorch's own and not dispatched, exact in a full look and else estimated
    full: bool
    stripped: bool
    undispatched: Tally
    shared: Tally
    dispatched: tuple[str, ...]  # capabilities seen
    outline_atomics: bool

    @property
    def unseen_share(self) -> float:
        """The largest share of functions that can still hide something, with CONFIDENCE."""
        seen = self.undispatched.functions
        if self.full or seen >= self.candidates:
            return 0.0
        return float(1 - (1 - CONFIDENCE) ** (1 / seen)) if seen else 1.0


def cpu_code(elf: Elf, library: str, *, full: bool = False, sample: int = SAMPLE) -> CpuCode:
    """Look at functions of a library, all of them or a random sample that is the same every time."""
    functions = functions_of(elf)
    rows = _once_each(functions.rows)
    if not full:
        random.Random(len(rows)).shuffle(rows)
    undispatched, shared = Tally(), Tally()
    capabilities: set[str] = set()
    code = sum(section.size for section in elf.sections if section.holds_code)
    tried, most = 0, code if full else min(code, SAMPLE_BYTES)
    for function, name, unit in _named(functions, rows):
        tried += 1
        group = group_of(name, unit, function)
        if group == "dispatched":
            capabilities.add(capability_of(name, unit))
        if group in ("undispatched", "shared"):
            tally = undispatched if group == "undispatched" else shared
            if undispatched.size + shared.size >= most:
                break
            if full or tally.functions < sample:
                tally.add(elf.machine, code_of(elf, function, LONGEST_FUNCTION), library, name, unit)
        if not full and undispatched.functions >= sample:
            break
    return CpuCode(
        machine=elf.machine,
        functions=len(rows),
        candidates=undispatched.functions * len(rows) // max(tried, 1),
        full=tried == len(rows),
        stripped=functions.stripped,
        undispatched=undispatched,
        shared=shared,
        dispatched=tuple(sorted(capabilities)),
        outline_atomics=any(mark in functions.strings for mark in OUTLINE_ATOMICS),
    )


def _once_each(rows: Iterable[Function]) -> list[Function]:
    """Functions with different code; several names may stand for one place."""
    return list({row.address: row for row in rows}.values())


def _named(functions: Functions, rows: Iterable[Function]) -> Iterator[tuple[Function, str, str]]:
    for row in rows:
        yield row, functions.name(row), functions.unit(row)
