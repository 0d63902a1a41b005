"""NVIDIA's GPU code: fat binaries, read by their headers alone, and cubins in files of their own."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache

from torchsmith.artifact.container import MOST_ENTRIES, UNNAMED, CodeEntry, CodeKind, Container, NoContainer
from torchsmith.artifact.source import Damaged, FileSlice
from torchsmith.catalog.axes import Form, GpuTarget, Sm

LAUNCHED = ".nv_fatbin"  # what the run time loads
RELOCATABLE = "__nv_relfatbin"  # code as it was before device linking
SECTIONS = (LAUNCHED, RELOCATABLE)
CONTAINER = struct.Struct("<4sHHQ")
ENTRY = struct.Struct("<HHIQIIHHIIIQ")
MAGIC = 0xBA55ED50.to_bytes(4, "little")
EXACT, FAMILY = 0x100000, 0x200000  # flags: the `a` and the `f` form of a target
LONGEST_HEADER = 4096
KINDS = {1: CodeKind.PTX, 2: CodeKind.CUBIN, 8: CodeKind.LTO}

CUBIN_MACHINE = 190
CUBIN_FLAGS = 48  # where an ELF header keeps them
COMPILED_FOR = re.compile(rb"-arch[ =]sm_(\d{2,3})([af]?)")  # how ptxas was called
MOST_CUBIN = 16 << 20


def container(source: FileSlice, at: int, end: int, place: str) -> tuple[tuple[CodeEntry, ...], int]:
    """The container at a place: its entries, and where it ends. Raises NoContainer, Damaged."""
    if at + CONTAINER.size > end:
        raise NoContainer(f"a GPU code container is cut off at {place}")
    magic, version, header, size = CONTAINER.unpack(source.read(at, CONTAINER.size))
    if magic != MAGIC or version != 1:
        raise NoContainer(f"no GPU code container at {place}")
    if header < CONTAINER.size or at + header + size > end:
        raise NoContainer(f"the GPU code container at {place} reaches beyond its section")
    return tuple(_entries(source, at + header, at + header + size, place)), at + header + size


def _entries(source: FileSlice, at: int, end: int, place: str) -> Iterator[CodeEntry]:
    left = MOST_ENTRIES
    while at < end:
        if at + ENTRY.size > end:
            raise Damaged(f"a piece of GPU code is cut off in the container at {place}")
        fields = ENTRY.unpack(source.read(at, ENTRY.size))
        kind, header, size, arch, flags = fields[0], fields[2], fields[3], fields[8], fields[11]
        if not ENTRY.size <= header <= LONGEST_HEADER or at + header + size > end:
            raise Damaged(f"a piece of GPU code reaches beyond its container at {place}")
        target = _target(arch, flags & (EXACT | FAMILY))
        yield CodeEntry(KINDS.get(kind, CodeKind.OTHER), target, header + size, empty=size == 0)
        at += header + size
        left -= 1
        if left < 0:
            raise Damaged(f"more than {MOST_ENTRIES} pieces of GPU code in the container at {place}")


@lru_cache(maxsize=256)
def _target(arch: int, form_flags: int) -> GpuTarget:
    form: Form = "a" if form_flags & EXACT else "f" if form_flags & FAMILY else ""
    return GpuTarget(Sm(arch), form)


def is_cubin(head: bytes) -> bool:
    """Whether the first 64 bytes of a file are those of a cubin."""
    machine = int.from_bytes(head[18:20], "little")
    return len(head) >= 64 and head.startswith(b"\x7fELF") and machine == CUBIN_MACHINE


def cubin(source: FileSlice) -> Container:
    """A file that is one cubin: its header names the target, in another place since CUDA 13, and a note how
    ptxas was called, so its form. Raises Damaged."""
    head = source.read(0, min(64, source.size))
    if not is_cubin(head):
        raise Damaged("not a cubin")
    flags = int.from_bytes(head[CUBIN_FLAGS : CUBIN_FLAGS + 4], "little")
    arch = flags >> 8 & 0xFF if head[8] >= 8 else flags & 0xFF  # by the version of its layout
    stated = COMPILED_FOR.search(source.read(0, min(source.size, MOST_CUBIN)))
    form = stated[2] if stated and int(stated[1]) == arch else b""
    target = _target(arch, {b"a": EXACT, b"f": FAMILY}.get(form, 0))
    return Container(UNNAMED, 0, (CodeEntry(CodeKind.CUBIN, target, source.size),))
