"""AMD's GPU code: clang's offload bundles, plain and compressed, and code objects in files of their own."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from functools import cache

from torchsmith.artifact.container import CodeEntry, CodeKind, NoContainer, read_at
from torchsmith.artifact.source import MOST_RATIO, Damaged, FileSlice
from torchsmith.artifact.tables import Table, read_table
from torchsmith.catalog.axes import NamedTarget
from torchsmith.core.problem import MissingRequirement
from torchsmith.core.text import printable

try:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
except ImportError:  # pragma: no cover - an installation without it
    zstd = None  # type: ignore[assignment]

SECTION = ".hip_fatbin"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COUNT = struct.Struct("<Q")
ENTRY = struct.Struct("<QQQ")  # offset in the bundle, size, length of the name
LONGEST_NAME = 4096
MOST_OBJECTS = 1000  # of one bundle

COMPRESSED = b"CCOB"
VERSIONED = struct.Struct("<4sHH")
# By version: the size with all headers (not in the first), the unpacked size, a hash.
SIZES = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
ZLIB, ZSTD = 0, 1
BLOCK = 64 << 10
HARMLESS = 64 << 10  # bytes that any bundle may unpack to
MOST_UNPACKED = 2 << 30  # bytes in memory; a bundle is the code of one compilation
MOST_WINDOW = 28  # 256 MiB, as a power of two: what zstd keeps to look back at

TARGET = re.compile(r"-(gfx[0-9a-z-]+(?::[a-z]+[+-])*)$")  # hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-
HEADER = struct.Struct("<16sHHIQQQI")  # of an ELF file, as far as its flags
AMDGPU = 224
BITCODE = b"BC\xc0\xde"
MACHINE = 0xFF
XNACK, SRAMECC = 0x300, 0xC00  # since the fourth version of code objects: any, off, on
MODES = {0x200: "xnack-", 0x300: "xnack+", 0x800: "sramecc-", 0xC00: "sramecc+"}
ABI_VERSION, FOURTH = 8, 2  # where an ELF file keeps that version, and its number


class Machines(Table, frozen=True):
    """data/amdgpu.toml."""

    source: str
    machines: dict[str, int]


@cache
def _names() -> dict[int, str]:
    return {number: name for name, number in read_table("amdgpu.toml", Machines).machines.items()}


def bundle(source: FileSlice, at: int, end: int, place: str) -> tuple[tuple[CodeEntry, ...], int]:
    """The bundle at a place: its code objects, and where it ends. Raises NoContainer, Damaged."""
    magic = source.read(at, min(len(MAGIC), end - at))
    if magic.startswith(COMPRESSED):
        return _compressed(source, at, end, place)
    if magic != MAGIC:
        raise NoContainer(f"no bundle of GPU code at {place}")
    try:
        entries, size = _objects(source.part(at, end - at))
    except Damaged as fault:
        raise Damaged(f"the bundle of GPU code at {place} is damaged: {fault.message}") from fault
    return entries, at + size


def _compressed(source: FileSlice, at: int, end: int, place: str) -> tuple[tuple[CodeEntry, ...], int]:
    head = source.read(at, min(VERSIONED.size, end - at))
    _, version, method = VERSIONED.unpack(head) if len(head) == VERSIONED.size else (b"", 0, 0)
    sizes = SIZES.get(version)
    if sizes is None or method not in (ZLIB, ZSTD) or at + VERSIONED.size + sizes.size > end:
        raise NoContainer(f"no compressed bundle of GPU code at {place}")
    stored, size = (0, *sizes.unpack(source.read(at + VERSIONED.size, sizes.size)))[-3:-1]
    start = at + VERSIONED.size + sizes.size
    last = at + stored if stored else end
    if not start < last <= end:
        raise Damaged(f"the compressed bundle of GPU code at {place} reaches beyond its section")
    _refuse_bomb(size, last - start, place)
    try:
        unpacked, used = _unpack(source.part(start, last - start), method, size)
        entries, _ = _objects(unpacked)
    except Damaged as fault:
        raise Damaged(f"the compressed bundle of GPU code at {place} is damaged: {fault.message}") from fault
    _refuse_bomb(size, used, place)
    whole = last - at if stored else VERSIONED.size + sizes.size + used
    taken = [CodeEntry(entry.kind, entry.target, entry.size * whole // size) for entry in entries]
    return tuple(taken), at + whole


def _refuse_bomb(size: int, stored: int, place: str) -> None:
    if size > MOST_UNPACKED or size > HARMLESS + MOST_RATIO * stored:
        raise Damaged(f"the compressed bundle of GPU code at {place} claims {size} bytes: a bomb")


def _zstd_stream() -> zstd.ZstdDecompressor:
    if zstd is None:
        raise MissingRequirement(
            "its GPU code is compressed by zstd, which is missing", hint="pip install backports.zstd"
        )
    return zstd.ZstdDecompressor(options={int(zstd.DecompressionParameter.window_log_max): MOST_WINDOW})


class _UnpackedBundle:
    """An unpacked bundle, read as a part of a file is."""

    def __init__(self, data: bytearray) -> None:
        self.data, self.size = data, len(data)

    def read(self, at: int, length: int) -> bytes:
        """Exactly these bytes. Raises Damaged if they are outside."""
        if at + length > self.size:
            raise Damaged(f"{length} bytes at {at:#x} are outside a bundle of {self.size} bytes")
        return bytes(self.data[at : at + length])


def _unpack(packed: FileSlice, method: int, size: int) -> tuple[_UnpackedBundle, int]:
    """What a stream of `size` bytes unpacks to, and how many packed bytes it takes. Raises Damaged."""
    faults = (zlib.error, *((zstd.ZstdError,) if zstd else ()))
    stream = zlib.decompressobj() if method == ZLIB else _zstd_stream()
    data, used = bytearray(), 0
    try:
        while not stream.eof and used < packed.size and len(data) <= size:
            block = packed.read(used, min(BLOCK, packed.size - used))
            used += len(block)
            data += stream.decompress(block, size + 1 - len(data))
    except faults as error:
        raise Damaged(f"it cannot be unpacked: {printable(str(error))}") from error
    if len(data) != size or not stream.eof:
        raise Damaged(f"it does not unpack to the {size} bytes that it claims")
    return _UnpackedBundle(data), used - len(stream.unused_data)


def _objects(data: FileSlice | _UnpackedBundle) -> tuple[tuple[CodeEntry, ...], int]:
    """The code objects of a bundle, and where the last one ends."""
    if data.read(0, len(MAGIC)) != MAGIC:
        raise Damaged("it does not begin as a bundle does")
    at = len(MAGIC)
    (count,) = COUNT.unpack(data.read(at, COUNT.size))
    if count > MOST_OBJECTS:
        raise Damaged(f"it claims {count} code objects")
    rows, at = [], at + COUNT.size
    for _ in range(count):
        start, length, named = ENTRY.unpack(data.read(at, ENTRY.size))
        if named > LONGEST_NAME:
            raise Damaged(f"a target's name claims {named} bytes")
        name = data.read(at + ENTRY.size, named).decode("ascii", "replace")
        rows.append((start, length, name))
        at += ENTRY.size + named
    entries = []
    for start, length, name in sorted(rows):
        if not length:
            continue  # the host's own entry is empty
        if start < at or start + length > data.size:
            raise Damaged(f"the code object for {printable(name)} is outside of it")
        at = start + length
        if not name.startswith("host-"):
            head = data.read(start, min(HEADER.size, length))
            kind, target = _named(printable(name), head)
            entries.append(CodeEntry(kind, target, length))
    return tuple(entries), at


def _named(name: str, head: bytes) -> tuple[CodeKind, NamedTarget]:
    """Kind and target of an entry. The run time selects by the name, and the bytes must agree."""
    if name.endswith("-amdgcnspirv"):
        return CodeKind.SPIRV, NamedTarget("amdgcnspirv")
    stated = TARGET.search(name)
    if stated is None:
        return CodeKind.OTHER, NamedTarget(name)
    target = NamedTarget.parse(stated[1])
    if head.startswith(BITCODE):
        return CodeKind.LTO, target
    real, exact = target_of(head)
    if (real if exact else real.arch) != (target if exact else target.arch):
        raise Damaged(f"its entry for {target} holds code for {real}")
    return CodeKind.HSACO, target


def target_of(head: bytes) -> tuple[NamedTarget, bool]:
    """The target in a code object's own header, and whether it has the modes too. Raises Damaged."""
    fields = HEADER.unpack(head) if len(head) == HEADER.size else (b"", 0, 0, 0)
    ident, machine, flags = fields[0], fields[2], fields[-1]
    if ident[:4] != b"\x7fELF" or machine != AMDGPU:
        raise Damaged("no code object of an AMD GPU")
    name = _names().get(flags & MACHINE, f"target {flags & MACHINE:#x}")
    modes = [MODES[flags & mask] for mask in (SRAMECC, XNACK) if flags & mask in MODES]
    exact = ident[ABI_VERSION] >= FOURTH
    return NamedTarget(name, tuple(modes) if exact else ()), exact


def code_object(source: FileSlice) -> tuple[CodeEntry, ...]:
    """A file that is a bundle, or one code object."""
    head = source.read(0, min(HEADER.size, source.size))
    if not head.startswith(b"\x7fELF"):
        return read_at(bundle, source, 0, source.size, "its beginning")[0]
    return (CodeEntry(CodeKind.HSACO, target_of(head)[0], source.size),)
