"""Whose GPU code a library holds: containers by the functions of the unit that they were compiled with."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from torchsmith.artifact.calls import loaded_addresses
from torchsmith.artifact.elf import FILE, FUNCTION, LOCAL, SYMBOL, SYMTAB, Elf, raw_at
from torchsmith.artifact.fatbin import RELOCATABLE, SECTIONS
from torchsmith.artifact.known import known
from torchsmith.artifact.units import stands_apart

CONTAINER = b"fatbinData\0"  # what nvcc calls the container of every unit
WRAPPER = b"__fatbinwrap_"  # refers to the container of a unit for a device link, by its name
DATA_AT = 8  # where a wrapper keeps the address of its container
END = b"__cudaUnregisterBinaryUtil"  # the only local function of a device link that was optimised
TAKEN_IN = re.compile(rb"__cudaRegisterLinkedBinary(_\w+?_cu_\w+)E3__p$")  # names a unit in a device link
OWN = re.compile(rb"N[KVRO]*(2at|3c10|4c10d|5torch)\d")  # names of torch itself
MOST_FUNCTIONS = 3  # local functions of a unit by which its place is known
NEIGHBOURS = 8  # functions before and after these that are most likely of the same unit
LONGEST_NAME = 400  # bytes of a function's name that are looked at


@dataclass(slots=True)
class _Unit:
    """A unit with GPU code, by the symbol table."""

    functions: list[int] = field(default_factory=list)  # addresses of the first local ones
    linked: list[bytes] = field(default_factory=list)  # of a device link: the units that it takes in


class _Symbols:
    """The units with GPU code in a symbol table."""

    def __init__(self, elf: Elf, strings: bytes, rows: Iterable[tuple[int, ...]]) -> None:
        self.strings = strings
        self.units: dict[int, _Unit] = {}  # by the address of the container
        self.wrappers: dict[bytes, int] = {}  # addresses by the unit's name
        functions: list[tuple[int, int]] = []
        sections = {index: part.name for index, part in enumerate(elf.sections) if part.name in SECTIONS}
        unit, linked = None, list[bytes]()
        for name_at, info, _, section, address, _ in rows:
            kind, local = info & 15, info >> 4 == LOCAL
            if kind == FILE:
                unit, linked = None, []
            elif kind == FUNCTION and section:
                functions.append((address, name_at))
                if unit and local and len(unit.functions) < MOST_FUNCTIONS and self.name(name_at) != END:
                    unit.functions += [address] if not stands_apart(self.name(name_at)) else []
            elif section in sections and strings.startswith(CONTAINER, name_at):
                if sections[section] == RELOCATABLE:
                    unit = self.units[address] = _Unit()
                else:
                    unit, linked = self.units.setdefault(address, _Unit(linked=linked)), []
            elif strings.startswith(WRAPPER, name_at):
                self.wrappers[self.name(name_at)[len(WRAPPER) - 1 :]] = address
            elif local and (part := TAKEN_IN.search(self.name(name_at))):
                # A compiler that does not optimise names them before the container, any other after it.
                (unit.linked if unit and not unit.functions else linked).append(part[1])
        functions.sort()
        self.addresses = [address for address, _ in functions]
        self.names_at = [name_at for _, name_at in functions]

    def name(self, at: int) -> bytes:
        return raw_at(self.strings, at, LONGEST_NAME)

    def library_of(self, unit: _Unit) -> str:
        """The library that the functions around a unit's are of; empty where it is torch's, or unknown."""
        places = (bisect_left(self.addresses, address) for address in unit.functions)
        around = {at for place in places for at in range(max(place - NEIGHBOURS, 0), place + NEIGHBOURS + 1)}
        names = (self.name(self.names_at[at]) for at in around if at < len(self.names_at))
        return _most_common(map(_library, names))


def origins_of(elf: Elf) -> dict[tuple[str, int], str]:
    """The library that containers come from, by their section and place in it, where that is another than the
    library's own code: as MAGMA and NCCL, which are linked in."""
    table = elf.of_kind(SYMTAB)
    if table is None:
        return {}
    strings = elf.strings_of(table)
    if not any(pattern.search(strings) for pattern in _patterns().values()):
        return {}
    symbols = _Symbols(elf, strings, elf.rows_of(table, SYMBOL))
    units = symbols.units.items()
    libraries = {address: symbols.library_of(unit) for address, unit in units if not unit.linked}
    links = {address: unit.linked for address, unit in units if unit.linked}
    holds = loaded_addresses(elf) if links else {}
    for address, names in links.items():
        parts = (holds.get(symbols.wrappers.get(name, -DATA_AT) + DATA_AT, -1) for name in names)
        libraries[address] = _most_common(libraries.get(part, "") for part in parts)
    return {
        (section.name, address - section.address): library
        for section in elf.named(*SECTIONS)
        for address, library in libraries.items()
        if library and 0 <= address - section.address < section.size
    }


def _most_common(libraries: Iterable[str | None]) -> str:
    """The library that most functions name; torch itself has no title, and a function may name none."""
    counts = Counter(title for title in libraries if title is not None)
    return max(counts, key=lambda title: (counts[title], not title)) if counts else ""


def _library(function: bytes) -> str | None:
    if OWN.search(function):
        return ""
    return next((title for title, pattern in _patterns().items() if pattern.search(function)), None)


@cache
def _patterns() -> dict[str, re.Pattern[bytes]]:
    """Names of functions by the library that they are of."""
    return {title: re.compile(it.symbol.encode()) for title, it in known().linked_in.items()}
