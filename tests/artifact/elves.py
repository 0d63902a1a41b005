"""Small ELF files made by hand, so that every field can be wrong."""

from __future__ import annotations

import importlib
import struct
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType

from torchsmith.artifact.elf import HEADER, SECTION, SYMBOL

X86_64, AARCH64 = 62, 183


@dataclass
class Part:
    """A section to be."""

    name: str
    data: bytes
    kind: int = 1
    flags: int = 2
    link: int = 0
    address: int = 0


@dataclass
class Library:
    """A shared library to be: sections, and fields of its header to be wrong on purpose."""

    parts: list[Part] = field(default_factory=list)
    machine: int = X86_64
    section_count: int | None = None
    section_offset: int | None = None
    names_index: int | None = None

    def build(self) -> bytes:
        names = b"\0" + b"".join(part.name.encode() + b"\0" for part in self.parts) + b".shstrtab\0"
        parts = [Part("", b"", kind=0), *self.parts, Part(".shstrtab", names, kind=3)]
        body, rows = b"", []
        for part in parts:
            offset = HEADER.size + len(body)
            body += part.data + b"\0" * (-len(part.data) % 16)
            name_at = names.index(part.name.encode() + b"\0") if part.name else 0
            rows.append(
                SECTION.pack(
                    name_at, part.kind, part.flags, part.address, offset, len(part.data), part.link, 0, 1, 0
                )
            )
        head = HEADER.pack(
            b"\x7fELF\x02\x01\x01" + bytes(9),
            3,
            self.machine,
            1,
            0,
            0,
            self.section_offset if self.section_offset is not None else HEADER.size + len(body),
            0,
            HEADER.size,
            0,
            0,
            SECTION.size,
            self.section_count if self.section_count is not None else len(parts),
            self.names_index if self.names_index is not None else len(parts) - 1,
        )
        return head + body + b"".join(rows)


def entry(arch: int, kind: int = 2, payload: int = 64, flags: int = 0x11, header: int = 64) -> bytes:
    """One piece of GPU code; its payload is never read."""
    fields = struct.pack("<HHIQIIHHIIIQ", kind, 0x101, header, payload, 0, 0, 8, 1, arch, 0, 0, flags)
    return fields + bytes(16) + b"\xaa" * payload


def container(*entries: bytes, size: int | None = None) -> bytes:
    """Pieces of GPU code under one header."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body) if size is None else size) + body


def gpu_library(*containers: bytes) -> bytes:
    """A library with these containers."""
    return Library([Part(".nv_fatbin", b"".join(containers))]).build()


def record(*lines: str) -> Part:
    """The section in which gcc records command lines."""
    data = b"".join(f"GNU C++17 12.2.0 {line}".encode() + b"\0" for line in lines)
    return Part(".GCC.command.line", data, flags=0x30)


def code_library(
    functions: dict[str, bytes],
    units: dict[str, str] | None = None,
    machine: int = X86_64,
    recorded: Iterable[str] = (),
    gpu: bytes = b"",
    aliases: Iterable[str] = (),
    hidden: Iterable[str] = (),
) -> bytes:
    """A library with functions; local ones come after the name of their source file. It may record command
    lines of its compiler. Aliases are further names of the code at its start, hidden ones keep that mark."""
    units = units or {}
    strings, symbols, code, unit = b"\0", bytes(SYMBOL.size), b"", ""
    for name, body in sorted(functions.items(), key=lambda item: item[0] not in units):
        if units.get(name, unit) != unit:
            unit = units[name]
            symbols += SYMBOL.pack(len(strings), 4, 0, 0xFFF1, 0, 0)
            strings += unit.encode() + b"\0"
        binding = 0 if name in units else 1
        symbols += SYMBOL.pack(len(strings), binding << 4 | 2, 2 * (name in hidden), 1, len(code), len(body))
        strings += name.encode() + b"\0"
        code += body
    for name in aliases:
        symbols += SYMBOL.pack(len(strings), 1 << 4 | 2, 0, 1, 0, len(code))
        strings += name.encode() + b"\0"
    parts = [
        Part(".text", code, flags=6),
        Part(".symtab", symbols, kind=2, link=3),
        Part(".strtab", strings, kind=3),
        Part(".rodata", b"\0"),
        *([Part(".nv_fatbin", gpu)] if gpu else []),
        *([record(*recorded)] if recorded else []),
    ]
    return Library(parts, machine).build()


GFX = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1030": 0x36, "gfx1100": 0x41, "gfx11-generic": 0x54}
MODES = {"": 0, "xnack-": 0x200, "xnack+": 0x300, "sramecc-": 0x800, "sramecc+": 0xC00}


def code_object(target: str, size: int = 256, flags: int | None = None, abi: int = 2) -> bytes:
    """Code for an AMD GPU: of its ELF file the header alone, which names the target."""
    name, *modes = target.split(":")
    flags = GFX[name] | sum(MODES[mode] for mode in modes) if flags is None else flags
    ident = b"\x7fELF\x02\x01\x01\x40" + bytes([abi]) + bytes(7)
    return HEADER.pack(ident, 3, 224, 1, 0, 0, 0, flags, HEADER.size, 0, 0, 0, 0, 0).ljust(size, b"\xaa")


def bundle(*targets: str, **objects: bytes) -> bytes:
    """An offload bundle as clang writes one: the host's empty entry, then code objects, each on its page."""
    names = {"host-x86_64-unknown-linux-gnu-": b""} | {
        f"hipv4-amdgcn-amd-amdhsa--{target}": objects.get(target, b"") or code_object(target)
        for target in (*targets, *objects)
    }
    at, head, body = 4096, b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)), b""
    for name, data in names.items():
        head += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name.encode()
        body += data + bytes(-len(data) % 4096)
    return head.ljust(at, b"\0") + body.rstrip(b"\0")


def _zstd() -> ModuleType:
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zlib(data: bytes) -> bytes:
    """What `zlib.compress` makes, but pieces that equal the last are not packed again: a bomb in a moment."""
    size, last, packed, stream = 1 << 24, b"", b"", [b"\x78\x9c"]
    for part in (data[start : start + size] for start in range(0, len(data), size)):
        if part != last:
            packer = zlib.compressobj(wbits=-15)
            last, packed = part, packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)
        stream.append(packed)
    return b"".join([*stream, b"\3\0", struct.pack(">I", zlib.adler32(data))])


def compressed(data: bytes, version: int = 3, method: int = 1, size: int | None = None) -> bytes:
    """The same, compressed by zlib (0) or zstd (1)."""
    packed = _zstd().compress(data) if method else _zlib(data)
    layout = struct.Struct({1: "<IQ", 2: "<IIQ", 3: "<QQQ"}[version])
    stored = (8 + layout.size + len(packed),) if version > 1 else ()
    sizes = layout.pack(*stored, len(data) if size is None else size, 0)
    return b"CCOB" + struct.pack("<HH", version, method) + sizes + packed


def hip_library(*bundles: bytes) -> bytes:
    """A library with these bundles, each on its page."""
    data = b"".join(part + bytes(-len(part) % 4096) for part in bundles)
    return Library([Part(".hip_fatbin", data)]).build()


def metallib(system: int = 0x81, release: tuple[int, int] = (14, 0), size: int = 256) -> bytes:
    """A Metal library: its header alone is read."""
    return struct.pack("<4sHHHBBHHQ", b"MTLB", 0x8001, 2, 8, 0, system, *release, size).ljust(size, b"\xaa")


def macho(cpu: int = 0x0100000C, platform: int = 1, inside: bytes = b"") -> bytes:
    """A library of macOS 14: the header, the command that names its system, and whatever it embeds."""
    command = struct.pack("<IIIIII", 0x32, 24, platform, 14 << 16, 15 << 16, 0)
    head = struct.pack("<4sIIIIIII", b"\xcf\xfa\xed\xfe", cpu, 0, 6, 1, len(command), 0, 0)
    return head + command + b"__TEXT,metal\0" + inside + b"MTLB in a text"
