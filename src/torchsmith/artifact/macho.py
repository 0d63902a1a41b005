"""Mach-O files, the libraries of macOS: which CPU and which system they are for."""

from __future__ import annotations

import struct

from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.source import Damaged, FileSlice

MAGIC = b"\xcf\xfa\xed\xfe"
HEADER = struct.Struct("<4sIIIIIII")
COMMAND = struct.Struct("<II")
BUILD = struct.Struct("<IIIII")  # kind, size, platform, the oldest release that it runs on, SDK
MACHINES: dict[int, ElfMachine] = {0x0100000C: "aarch64", 0x01000007: "x86_64"}
BUILD_VERSION, MACOS = 0x32, 1
MOST_COMMANDS = 1 << 20  # bytes


def is_macho(source: FileSlice) -> bool:
    """Whether a file begins as one of macOS does."""
    return source.read(0, min(len(MAGIC), source.size)) == MAGIC


def read_macho(source: FileSlice) -> tuple[ElfMachine, str]:
    """The CPU of a library and the oldest macOS that it runs on. Raises Damaged."""
    if source.size < HEADER.size:
        raise Damaged(f"a Mach-O file cut off after {source.size} bytes")
    _, cpu, _, _, count, size, _, _ = HEADER.unpack(source.read(0, HEADER.size))
    machine = MACHINES.get(cpu)
    if machine is None:
        raise Damaged(f"a Mach-O file for another machine (number {cpu:#x})")
    if size > min(MOST_COMMANDS, source.size - HEADER.size):
        raise Damaged(f"its load commands claim {size} bytes")
    commands, at = source.read(HEADER.size, size), 0
    for _ in range(count):
        if at + COMMAND.size > size:
            raise Damaged("its load commands are cut off")
        kind, length = COMMAND.unpack_from(commands, at)
        if length < COMMAND.size or at + length > size:
            raise Damaged(f"a load command at {at:#x} reaches beyond the others")
        if kind == BUILD_VERSION and length >= BUILD.size:
            _, _, platform, oldest, _ = BUILD.unpack_from(commands, at)
            if platform != MACOS:
                raise Damaged(f"a Mach-O file for another system of Apple's (number {platform})")
            return machine, f"macos{oldest >> 16}.{oldest >> 8 & 0xFF}"
        at += length
    raise Damaged("a Mach-O file that names no system")
