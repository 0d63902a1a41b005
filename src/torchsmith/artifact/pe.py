"""PE files, the libraries of Windows: which CPU they are for, and their sections."""

from __future__ import annotations

import struct

from torchsmith.artifact.elf import ElfMachine, Section
from torchsmith.artifact.source import Damaged, FileSlice

MAGIC = b"MZ"
START = struct.Struct("<I")  # where the header is
HEADER = struct.Struct("<4sHHIIIHH")
SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address, size in the file, place in it
NAME = 8  # bytes of a section's name; the rest of a longer one is not kept
MACHINES: dict[int, ElfMachine] = {0x8664: "x86_64", 0xAA64: "aarch64"}


def is_pe(source: FileSlice) -> bool:
    """Whether a file begins as one of Windows does."""
    return source.read(0, min(len(MAGIC), source.size)) == MAGIC


def read_pe(source: FileSlice) -> tuple[ElfMachine | None, list[Section]]:
    """The CPU of a library, if it is one of ours, and its sections. Raises Damaged."""
    [start] = START.unpack(source.read(60, START.size))
    magic, machine, count, _, _, _, optional, _ = HEADER.unpack(source.read(start, HEADER.size))
    if magic != b"PE\0\0":
        raise Damaged(f"its header is not one of Windows, at {start:#x}")
    rows = SECTION.iter_unpack(source.read(start + HEADER.size + optional, count * SECTION.size))
    sections = [
        Section(name.rstrip(b"\0").decode("latin-1"), 0, 0, address, at, size, 0)
        for name, _, address, size, at in rows
    ]
    for section in sections:
        if section.offset + section.size > source.size:
            raise Damaged(f"its section {section.name!r} reaches beyond its end")
    return MACHINES.get(machine), sections
