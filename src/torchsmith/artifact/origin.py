"""Whose GPU code a library holds: containers by the functions of the unit that they were compiled with."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from itertools import accumulate

from torchsmith.artifact.calls import loaded_addresses
from torchsmith.artifact.elf import FILE, FUNCTION, SYMBOL, SYMTAB, Elf
from torchsmith.artifact.fatbin import LAUNCHED, Container
from torchsmith.artifact.known import known
from torchsmith.artifact.units import stands_apart

WRAPPER = b"__fatDeviceText"  # what a unit hands to the run time, by the name that nvcc gives it
DATA_AT = 8  # where a wrapper keeps the address of its container
OWN = re.compile(rb"N[KVRO]*(2at|3c10|5torch)\d")  # names of torch itself
BESIDE = 4  # functions before and after the local ones of a unit that are most likely of it
NAME = re.compile(rb"[^\0]{0,400}")


def origins_of(elf: Elf, containers: Iterable[Container]) -> dict[int, str]:
    """The library that containers come from, by their place in the section, where that is another than the
    library's own code: as MAGMA and NCCL, which are linked in."""
    table, section = elf.of_kind(SYMTAB), next(elf.named(LAUNCHED), None)
    if table is None or section is None:
        return {}
    strings = elf.strings_of(table)
    data = elf.bytes_of(table)
    wrappers, functions = _units(data[: len(data) - len(data) % SYMBOL.size], strings)
    functions.sort()
    addresses = [address for address, _ in functions]
    sums = {
        title: list(accumulate((bool(pattern.search(name)) for _, name in functions), initial=0))
        for title, pattern in _patterns().items()
    }
    if not any(sums[title][-1] for title in known().linked_in):
        return {}
    holds = loaded_addresses(elf)
    offsets = {container.offset for container in containers if container.section == LAUNCHED}
    found: dict[int, str] = {}
    for wrapper, places in wrappers:
        offset = holds.get(wrapper + DATA_AT, -1) - section.address
        if offset not in offsets or not places:
            continue
        first = max(bisect_left(addresses, min(places)) - BESIDE, 0)
        last = min(bisect_left(addresses, max(places) + 1) + BESIDE, len(addresses))
        counts = {title: totals[last] - totals[first] for title, totals in sums.items()}
        title = max(known().linked_in, key=counts.__getitem__)
        if counts[title] > counts[""]:  # more than torch's own
            found[offset] = title
    return found


@cache
def _patterns() -> dict[str, re.Pattern[bytes]]:
    """Names of functions by the library that they are of; torch itself has none."""
    return {"": OWN} | {title: re.compile(it.symbol.encode()) for title, it in known().linked_in.items()}


def _units(table: bytes, strings: bytes) -> tuple[list[tuple[int, list[int]]], list[tuple[int, bytes]]]:
    """Wrappers with the places of local functions of their units, and all functions with their names."""
    wrappers: list[tuple[int, list[int]]] = []
    functions: list[tuple[int, bytes]] = []
    wrapper, places = -1, list[int]()
    for name_at, info, _, section, address, _ in SYMBOL.iter_unpack(table):
        kind, local = info & 15, info >> 4 == 0
        found = NAME.match(strings, name_at)
        name = found[0] if found else b""
        if kind == FILE or (WRAPPER in name and wrapper >= 0):
            if wrapper >= 0:
                wrappers.append((wrapper, places))
            wrapper, places = -1, []
        if WRAPPER in name:
            wrapper = address
        elif kind == FUNCTION and section:
            functions.append((address, name))
            if local and not stands_apart(name):
                places.append(address)
    if wrapper >= 0:
        wrappers.append((wrapper, places))
    return wrappers, functions
