"""Apple's GPU code: a Metal library, read by its header."""

from __future__ import annotations

import struct

from torchsmith.artifact.container import CodeEntry, CodeKind, NoContainer
from torchsmith.artifact.source import Damaged, FileSlice
from torchsmith.catalog.axes import NamedTarget

METALLIB = b"MTLB"
# Magic, platform, two parts of the format's release, kind, system, two parts of its release, all bytes.
HEADER = struct.Struct("<4sHHHBBHHQ")
SYSTEMS = {0x81: "macos", 0x82: "ios", 0x83: "tvos", 0x84: "watchos", 0x86: "maccatalyst"}


def metallib(source: FileSlice, at: int, end: int, place: str) -> tuple[tuple[CodeEntry, ...], int]:
    """The Metal library at a place as one entry, and where it ends. Raises NoContainer, Damaged."""
    if at + HEADER.size > end:
        raise NoContainer(f"a Metal library is cut off at {place}")
    magic, _, _, _, _, system, major, minor, size = HEADER.unpack(source.read(at, HEADER.size))
    if magic != METALLIB or system not in SYSTEMS or size <= HEADER.size:
        raise NoContainer(f"no Metal library at {place}")
    if at + size > end:
        raise Damaged(f"the Metal library at {place} is cut off: it claims {size} bytes")
    target = NamedTarget(f"{SYSTEMS[system]}{major}.{minor}")
    return (CodeEntry(CodeKind.METALLIB, target, size),), at + size
