"""Who calls what in machine code: direct calls, imported functions by their PLT entries, addresses taken."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Iterator

from torchsmith.artifact.elf import DYNSYM, SYMBOL, SYMTAB, Elf, Function, code_of, text_at

PIECE = 4 << 20  # bytes of code searched at a time
OVERLAP = 8  # bytes; more than a call takes
MOST_RELOCATIONS = 64 << 20  # bytes; libtorch_cpu.so of torch 2.14 has 12 MB
RELA = 4
RELOCATION = struct.Struct("<QQq")
IRELATIVE = {"x86_64": 37, "aarch64": 1032}
LOADED_AT = {"x86_64": 8, "aarch64": 1027}  # R_*_RELATIVE: an address of the library itself
RELATIVE = struct.Struct("<i")
WORD = struct.Struct("<I")

X86_CALL = re.compile(rb"[\xe8\xe9]")  # CALL and JMP with 32 bits of distance
# LEA and MOV relative to the code: an address, or a slot that holds one.
X86_ADDRESS = re.compile(rb"[\x48\x4c][\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]")
X86_SLOT = re.compile(rb"\xff[\x15\x25]")  # CALL and JMP through a slot that the loader fills
ENDBR64 = b"\xf3\x0f\x1e\xfa"
AARCH64_CALL = re.compile(rb"[\x14-\x17\x94-\x97]")  # the highest byte of B and BL
BTI = 0xD503245F


def targets_of(elf: Elf, code: bytes, address: int) -> Iterator[int]:
    """The places that code calls or jumps to, among others that only look so."""
    return _x86_targets(code, address) if elf.machine == "x86_64" else _aarch64_targets(code, address)


def _x86_targets(code: bytes, address: int) -> Iterator[int]:
    end = len(code) - 5
    for call in X86_CALL.finditer(code):
        at = call.start()
        if at <= end:
            yield address + at + 5 + int(RELATIVE.unpack_from(code, at + 1)[0])


def _aarch64_targets(code: bytes, address: int) -> Iterator[int]:
    for call in AARCH64_CALL.finditer(code[3::4]):
        at = 4 * call.start()
        distance = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
        yield address + at + 4 * (distance - (distance << 1 & 0x4000000))


def addresses_in(elf: Elf, code: bytes, address: int) -> Iterator[int]:
    """The places whose address or content code loads: functions that are handed on, slots, and data."""
    if elf.machine == "x86_64":
        for pattern, size in ((X86_ADDRESS, 7), (X86_SLOT, 6)):  # bytes of such an instruction
            for match in pattern.finditer(code):
                end = match.start() + size
                if end <= len(code):
                    yield address + end + int(RELATIVE.unpack_from(code, end - 4)[0])
        return
    pages: dict[int, int] = {}  # by register: others may stand between the two instructions
    for at in range(0, len(code) - 3, 4):
        word, page = WORD.unpack_from(code, at)[0], _page(code, at, address)
        if page is not None:
            pages[word & 31] = page
        elif word & 0xFFC00000 == 0x91000000 and word >> 5 & 31 in pages:  # ADD
            yield pages[word >> 5 & 31] + (word >> 10 & 0xFFF)
        elif word & 0xFFC00000 == 0xF9400000 and word >> 5 & 31 in pages:  # LDR
            yield pages[word >> 5 & 31] + 8 * (word >> 10 & 0xFFF)


def _page(code: bytes, at: int, address: int) -> int | None:
    """The page that an ADRP at a place of AArch64 code names."""
    word = WORD.unpack_from(code, at)[0]
    if word & 0x9F000000 != 0x90000000:
        return None
    pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return int(((address + at) & ~0xFFF) + ((pages - (pages << 1 & 0x200000)) << 12))


def callers_of(elf: Elf, functions: Iterable[Function], wanted: list[set[int]]) -> dict[int, Function]:
    """Who calls a wanted address, until one of each set is known to be called."""
    callers: dict[int, Function] = {}
    left, addresses = wanted, {address for group in wanted for address in group}
    for function in functions:
        code = code_of(elf, function)
        hits = addresses.intersection(targets_of(elf, code, function.address))
        if hits:
            callers.update((address, function) for address in hits if address not in callers)
            left = [group for group in left if not hits.intersection(group)]
            if not left:
                break
    return callers


def resolvers_of(elf: Elf) -> frozenset[int]:
    """Functions by which the loader chooses an implementation (IFUNC)."""
    kind = IRELATIVE[elf.machine]
    return frozenset(addend for _, info, addend in _relocations(elf) if info & 0xFFFFFFFF == kind)


def in_tables(elf: Elf, addresses: Collection[int]) -> set[int]:
    """The addresses that data holds, as tables of functions do."""
    kind = LOADED_AT[elf.machine]
    return {
        addend for _, info, addend in _relocations(elf) if info & 0xFFFFFFFF == kind and addend in addresses
    }


def loaded_addresses(elf: Elf) -> dict[int, int]:
    """What the loader writes where: addresses of the library itself, in its data."""
    kind = LOADED_AT[elf.machine]
    return {offset: addend for offset, info, addend in _relocations(elf) if info & 0xFFFFFFFF == kind}


def stand_ins(elf: Elf, addresses: Collection[int]) -> dict[int, int]:
    """Every place that stands for a function of these addresses: itself, slots, and PLT entries."""
    places = {address: address for address in addresses}
    table = elf.of_kind(DYNSYM)
    if table is None:
        return places
    rows = enumerate(elf.rows_of(table, SYMBOL))
    exported = {index: row[4] for index, row in rows if row[3] and row[4] in places}
    slots = {offset: exported[info >> 32] for offset, info, _ in _relocations(elf) if info >> 32 in exported}
    return places | slots | {entry: slots[slot] for entry, slot in _plt_entries(elf, slots)}


def _relocations(elf: Elf) -> Iterator[tuple[int, ...]]:
    """Offset, info and addend of each."""
    for section in elf.sections:
        if section.kind == RELA and section.flags & 2:
            yield from elf.rows_of(section, RELOCATION, MOST_RELOCATIONS)


def call_sites(elf: Elf, names: Collection[str]) -> list[int]:
    """Where code calls functions of these names, imported or linked in, in order of address."""
    slots = _slots(elf, names)
    targets = {*(entry for entry, _ in _plt_entries(elf, slots)), *defined(elf, names)}
    if not slots and not targets:
        return []
    sites: list[int] = []
    for section in elf.sections:
        if not section.holds_code or section.name.startswith(".plt"):
            continue
        for start in range(0, section.size, PIECE):
            code = elf.source.read(section.offset + start, min(PIECE + OVERLAP, section.size - start))
            sites += _sites(elf, code, section.address + start, targets, slots)
    return sorted(set(sites))


def _sites(elf: Elf, code: bytes, address: int, targets: set[int], slots: set[int]) -> Iterator[int]:
    if elf.machine == "aarch64":
        for call in AARCH64_CALL.finditer(code[3::4]):
            at = 4 * call.start()
            if next(_aarch64_targets(code[at : at + 4], address + at)) in targets:
                yield address + at
        return
    # One search for each target's four bytes of distance would be as many; this is one for all.
    unpack, end = RELATIVE.unpack_from, len(code) - 6
    for call in X86_CALL.finditer(code):
        at = call.start()
        if at <= end and address + at + 5 + unpack(code, at + 1)[0] in targets:
            yield address + at
    for call in X86_SLOT.finditer(code) if slots else ():
        at = call.start()
        if at <= end and address + at + 6 + unpack(code, at + 2)[0] in slots:
            yield address + at


def _slots(elf: Elf, names: Collection[str]) -> set[int]:
    """Where the loader puts the addresses of imported functions."""
    symbols = {index for index, _ in _named_symbols(elf, DYNSYM, names, imported=True)}
    return {offset for offset, info, _ in _relocations(elf) if info >> 32 in symbols} if symbols else set()


def defined(elf: Elf, names: Collection[str]) -> Iterator[int]:
    """The addresses of what is linked in under these names."""
    return (row[4] for _, row in _named_symbols(elf, SYMTAB, names, imported=False))


def _named_symbols(
    elf: Elf, kind: int, names: Collection[str], *, imported: bool
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The rows of a symbol table that have these names, with their places in it."""
    table = elf.of_kind(kind)
    if table is None:
        return
    strings, wanted = elf.strings_of(table), set(names)
    if not any(b"\0" + name.encode() + b"\0" in strings for name in names):
        return
    for index, row in enumerate(elf.rows_of(table, SYMBOL)):
        if (row[3] == 0) is imported and row[0] < len(strings) and text_at(strings, row[0]) in wanted:
            yield index, row


def _plt_entries(elf: Elf, slots: Collection[int]) -> Iterator[tuple[int, int]]:
    """Where the entries of the procedure linkage table begin that jump through some slots, and which."""
    for section in elf.sections if slots else ():
        if not section.holds_code or not section.name.startswith(".plt"):
            continue
        code = elf.bytes_of(section)
        if elf.machine == "x86_64":
            yield from _x86_entries(code, section.address, slots)
        else:
            yield from _aarch64_entries(code, section.address, slots)


def _x86_entries(code: bytes, address: int, slots: Collection[int]) -> Iterator[tuple[int, int]]:
    for jump in X86_SLOT.finditer(code):
        at = jump.start()
        if at + 6 > len(code):
            continue
        slot = address + at + 6 + int(RELATIVE.unpack_from(code, at + 2)[0])
        if slot in slots:
            at -= code[at - 1 : at] == b"\xf2"  # BND
            yield address + (at - 4 if code[at - 4 : at] == ENDBR64 else at), slot


def _aarch64_entries(code: bytes, address: int, slots: Collection[int]) -> Iterator[tuple[int, int]]:
    for at in range(0, len(code) - 7, 4):
        page, load = _page(code, at, address), WORD.unpack_from(code, at + 4)[0]
        slot = page + 8 * (load >> 10 & 0xFFF) if page is not None and load & 0xFFC00000 == 0xF9400000 else -1
        if slot in slots:
            guarded = at >= 4 and WORD.unpack_from(code, at - 4)[0] == BTI
            yield address + (at - 4 if guarded else at), slot
