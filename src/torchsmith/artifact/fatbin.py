"""GPU code in a library: the containers of its fat binaries, read by their headers alone."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from torchsmith.artifact.elf import Elf, NotElf, Section, links_of, read_elf
from torchsmith.artifact.source import Damaged, FileSlice
from torchsmith.catalog.axes import Form, GpuTarget, Sm

LAUNCHED = ".nv_fatbin"  # what the run time loads
RELOCATABLE = "__nv_relfatbin"  # code as it was before device linking
SECTIONS = (LAUNCHED, RELOCATABLE)
UNNAMED = "(no section)"  # found by its magic number alone
CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIHHIIIQ")
MAGIC = 0xBA55ED50
ALIGNMENT = 8
EXACT, FAMILY = 0x100000, 0x200000  # flags: the `a` and the `f` form of a target

LONGEST_GAP = 1 << 20  # zeros between containers come from alignment
LONGEST_HEADER = 4096
MOST_ENTRIES = 500_000
SCANNED = 4 << 20  # bytes read at a time
MOST_FALSE = 8  # containers that turn out to be none
RUNTIME = "libcudart"  # who links to it launches something


class CodeKind(StrEnum):
    """What an entry holds."""

    PTX = "ptx"
    CUBIN = "cubin"
    LTO = "lto"
    OTHER = "other"


KINDS = {1: CodeKind.PTX, 2: CodeKind.CUBIN, 8: CodeKind.LTO}


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One piece of GPU code: for which target, in which form, and the bytes it takes with its header."""

    kind: CodeKind
    target: GpuTarget
    size: int


@dataclass(frozen=True, slots=True)
class Container:
    """The GPU code of one compilation: the same functions for several targets."""

    section: str
    offset: int  # in its section
    entries: tuple[FatbinEntry, ...]


def containers_of(elf: Elf) -> Iterator[Container]:
    """Every container of a library; Damaged where headers contradict each other."""
    left = MOST_ENTRIES
    sections = [section for name in SECTIONS for section in elf.named(name)]
    found = (container for section in sections for container in _walk(elf.source, section))
    for container in found if sections or _names_its_parts(elf) else _scan(elf.source):
        left -= len(container.entries) + 1
        if left < 0:
            raise Damaged(f"more than {MOST_ENTRIES} pieces of GPU code")
        yield container


AR_MAGIC, AR_HEADER = b"!<arch>\n", 60
CUBIN_MACHINE = 190
CUBIN_FLAGS = 48  # where an ELF header keeps them
MOST_MEMBERS = 100_000
COMPILED_FOR = re.compile(rb"-arch[ =]sm_(\d{2,3})([af]?)")  # how ptxas was called
MOST_CUBIN = 16 << 20


def containers_of_file(source: FileSlice, name: str) -> Iterator[Container]:
    """GPU code in a static library, or in a file of its own."""
    if name.endswith(".a"):
        for member in _members(source):
            if member.size > 4 and member.read(0, 4) == b"\x7fELF":
                try:
                    yield from containers_of(read_elf(member))
                except NotElf:
                    continue  # an object for another machine
    elif name.endswith(".fatbin"):
        yield from _scan(source)
    else:
        yield _cubin(source)


def _members(source: FileSlice) -> Iterator[FileSlice]:
    """The members of a static library."""
    if source.read(0, min(len(AR_MAGIC), source.size)) != AR_MAGIC:
        return  # a linker's script, or an archive that only names its members
    at = len(AR_MAGIC)
    for _ in range(MOST_MEMBERS):
        if at + AR_HEADER > source.size:
            return
        digits = source.read(at, AR_HEADER)[48:58].strip()
        if not digits.isdigit() or int(digits) > source.size - at - AR_HEADER:
            raise Damaged(f"a member at {at:#x} reaches beyond the end of the archive")
        size = int(digits)
        yield FileSlice(source.handle, source.start + at + AR_HEADER, size)
        at += AR_HEADER + size + size % 2


def _cubin(source: FileSlice) -> Container:
    """A file that is one cubin: its header names the target, in another place since CUDA 13, and a note how
    ptxas was called, so its form."""
    head = source.read(0, min(64, source.size))
    if len(head) < 64 or head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") != CUBIN_MACHINE:
        raise Damaged("not a cubin")
    flags = int.from_bytes(head[CUBIN_FLAGS : CUBIN_FLAGS + 4], "little")
    arch = flags >> 8 & 0xFF if head[8] >= 8 else flags & 0xFF  # by the version of its layout
    stated = COMPILED_FOR.search(source.read(0, min(source.size, MOST_CUBIN)))
    form = stated[2] if stated and int(stated[1]) == arch else b""
    target = _target(arch, {b"a": EXACT, b"f": FAMILY}.get(form, 0))
    return Container(UNNAMED, 0, (FatbinEntry(CodeKind.CUBIN, target, source.size),))


def _names_its_parts(elf: Elf) -> bool:
    """Whether sections tell that there is no GPU code: not when they were removed, or when CUDA is linked."""
    return bool(elf.sections) and not any(name.startswith(RUNTIME) for name in links_of(elf).needed)


def _scan(source: FileSlice) -> Iterator[Container]:
    """Containers anywhere in a file, by their magic number, where their headers hold throughout."""
    end, false = 0, 0
    for at in _magic_places(source):
        head = source.read(at, min(CONTAINER.size, source.size - at))
        if at < end or len(head) < CONTAINER.size:
            continue
        _, version, header, size = CONTAINER.unpack(head)
        if version != 1 or header != CONTAINER.size or not 0 < size <= source.size - at - header:
            continue  # the number stands in CUDA's own code too
        try:
            entries = tuple(_entries(source, at + header, at + header + size, f"{at:#x}"))
        except Damaged:
            false += 1
            if false > MOST_FALSE:
                raise
            continue
        end = at + header + size
        yield Container(UNNAMED, at, entries)


def _magic_places(source: FileSlice) -> Iterator[int]:
    magic = MAGIC.to_bytes(4, "little")
    for start in range(0, source.size, SCANNED):
        block = source.read(start, min(SCANNED + len(magic) - 1, source.size - start))
        at = block.find(magic)
        while at >= 0:
            yield start + at
            at = block.find(magic, at + 1)


def _walk(source: FileSlice, section: Section) -> Iterator[Container]:
    at, end = section.offset, section.offset + section.size
    while (at := _next_start(source, section, at, end)) < end:
        place = f"{section.name} + {at - section.offset:#x}"
        if at + CONTAINER.size > end:
            raise Damaged(f"a GPU code container is cut off at {place}")
        magic, _, header, size = CONTAINER.unpack(source.read(at, CONTAINER.size))
        if magic != MAGIC:
            raise Damaged(f"no GPU code container at {place}")
        if header < CONTAINER.size or at + header + size > end:
            raise Damaged(f"the GPU code container at {place} reaches beyond its section")
        entries = tuple(_entries(source, at + header, at + header + size, place))
        yield Container(section.name, at - section.offset, entries)
        at += header + size


def _next_start(source: FileSlice, section: Section, at: int, end: int) -> int:
    """The next place that is not padding; `end` when only zeros are left."""
    at += -(at - section.offset) % ALIGNMENT
    start = at
    while at < end:
        block = source.read(at, min(4096, end - at))
        rest = block.lstrip(b"\0")
        if rest:
            return at + (len(block) - len(rest)) // ALIGNMENT * ALIGNMENT
        at += len(block)
        if at - start > LONGEST_GAP:
            place = f"{start - section.offset:#x}"
            raise Damaged(f"{section.name} holds more than {LONGEST_GAP} zeros at {place}")
    return end


def _entries(source: FileSlice, at: int, end: int, place: str) -> Iterator[FatbinEntry]:
    left = MOST_ENTRIES
    while at < end:
        if at + ENTRY.size > end:
            raise Damaged(f"a piece of GPU code is cut off in the container at {place}")
        fields = ENTRY.unpack(source.read(at, ENTRY.size))
        kind, header, size, arch, flags = fields[0], fields[2], fields[3], fields[8], fields[11]
        if not ENTRY.size <= header <= LONGEST_HEADER or at + header + size > end:
            raise Damaged(f"a piece of GPU code reaches beyond its container at {place}")
        target = _target(arch, flags & (EXACT | FAMILY))
        yield FatbinEntry(KINDS.get(kind, CodeKind.OTHER), target, header + size)
        at += header + size
        left -= 1
        if left < 0:
            raise Damaged(f"more than {MOST_ENTRIES} pieces of GPU code in the container at {place}")


@lru_cache(maxsize=256)
def _target(arch: int, form_flags: int) -> GpuTarget:
    form: Form = "a" if form_flags & EXACT else "f" if form_flags & FAMILY else ""
    return GpuTarget(Sm(arch), form)
