"""Who calls what in machine code: direct calls, imported functions by their PLT entries, addresses taken."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping

from torchsmith.artifact.elf import DYNSYM, SYMBOL, SYMTAB, Elf, ElfMachine, Function, code_of, text_at

PIECE = 4 << 20  # bytes of code searched at a time
OVERLAP = 8  # bytes; more than a call takes
MOST_RELOCATIONS = 64 << 20  # bytes; libtorch_cpu.so of torch 2.14 has 12 MB
RELA = 4
RELOCATION = struct.Struct("<QQq")
IRELATIVE: dict[ElfMachine, int] = {"x86_64": 37, "aarch64": 1032}
LOADED_AT: dict[ElfMachine, int] = {"x86_64": 8, "aarch64": 1027}  # R_*_RELATIVE: an address of the library
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
    return (target for _, target in _calls(elf, code, address))


def _calls(elf: Elf, code: bytes, address: int) -> Iterator[tuple[int, int]]:
    """Where in code calls and jumps begin, and where they lead."""
    return _x86_operands(X86_CALL, 5, code, address) if elf.machine == "x86_64" else _branches(code, address)


def _x86_operands(
    pattern: re.Pattern[bytes], size: int, code: bytes, address: int
) -> Iterator[tuple[int, int]]:
    """Where instructions of `size` bytes begin, and the place that the last four name, from their end on."""
    unpack, last = RELATIVE.unpack_from, len(code) - size
    for match in pattern.finditer(code):
        at = match.start()
        if at <= last:
            yield at, address + at + size + unpack(code, at + size - 4)[0]


def _branches(code: bytes, address: int) -> Iterator[tuple[int, int]]:
    """Where branches of AArch64 stand, and where they lead."""
    for match in AARCH64_CALL.finditer(code[3::4]):
        at = 4 * match.start()
        distance = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
        yield at, address + at + 4 * (distance - (distance << 1 & 0x4000000))


def addresses_in(elf: Elf, code: bytes, address: int) -> Iterator[int]:
    """The places whose address or content code loads: functions that are handed on, slots, and data."""
    if elf.machine == "x86_64":
        yield from (place for _, place in _x86_operands(X86_ADDRESS, 7, code, address))
        yield from (slot for _, slot in _x86_operands(X86_SLOT, 6, code, address))
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
    return frozenset(address for _, address in _loaded(elf, IRELATIVE))


def in_tables(elf: Elf, addresses: Collection[int]) -> set[int]:
    """The addresses that data holds, as tables of functions do."""
    return {address for _, address in _loaded(elf, LOADED_AT) if address in addresses}


def loaded_addresses(elf: Elf) -> dict[int, int]:
    """What the loader writes where: addresses of the library itself, in its data."""
    return dict(_loaded(elf, LOADED_AT))


def _loaded(elf: Elf, kinds: Mapping[ElfMachine, int]) -> Iterator[tuple[int, int]]:
    """Where the loader writes something of a kind, and the address in the library that it comes from."""
    kind = kinds[elf.machine]
    return ((offset, addend) for offset, info, addend in _relocations(elf) if info & 0xFFFFFFFF == kind)


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
    # One search for each target's four bytes of distance would be as many; this is one for all.
    yield from (address + at for at, target in _calls(elf, code, address) if target in targets)
    if elf.machine == "x86_64" and slots:
        uses = _x86_operands(X86_SLOT, 6, code, address)
        yield from (address + at for at, slot in uses if slot in slots)


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
    for at, slot in _x86_operands(X86_SLOT, 6, code, address):
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
