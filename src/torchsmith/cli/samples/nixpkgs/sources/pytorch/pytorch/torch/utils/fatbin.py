"""Fat binaries in small: containers with one entry for each target, and the section that holds them."""

import struct


def container(targets: list[tuple[int, int, str, bool]], number: int) -> bytes:
    """A container with an entry for each (major, minor, form, with PTX)."""
    entries = b""
    for major, minor, form, ptx in targets:
        flags = {"": 0, "a": 0x100000, "f": 0x200000}[form]
        for kind in (2, 1) if ptx else (2,):
            body = f"kernel {number} for {major}.{minor}".encode().ljust(64, b"\0")
            head = struct.pack(
                "<HHIQIIHHIIIQ", kind, 0x101, 64, len(body), 0, 0, 0, 1, major * 10 + minor, 0, 0, flags | 1
            )
            entries += head.ljust(64, b"\0") + body
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def section(file: str) -> str:
    """The assembly of an object that holds a file of containers."""
    return f'.section .nv_fatbin,"a"\n.balign 8\n.incbin "{file}"\n.section .note.GNU-stack,""\n'
