"""Where GPU code is, in sections of libraries and in files of its own, and which reader knows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from torchsmith.artifact import bundle, fatbin
from torchsmith.artifact.container import MOST_ENTRIES, UNNAMED, Container, Reader, read_at, scan, walk
from torchsmith.artifact.elf import Elf, NotElf, links_of, read_elf
from torchsmith.artifact.metallib import metallib
from torchsmith.artifact.source import Damaged, FileSlice

SECTIONS: dict[str, Reader] = {
    **dict.fromkeys(fatbin.SECTIONS, fatbin.container),
    bundle.SECTION: bundle.bundle,
}
MAGICS: dict[bytes, Reader] = {
    fatbin.MAGIC: fatbin.container,
    bundle.MAGIC: bundle.bundle,
    bundle.COMPRESSED: bundle.bundle,
}
RUNTIMES = ("libcudart", "libamdhip64")  # who links to one launches something
FILES = ("cubin", "fatbin", "co", "hsaco", "hipfb", "metallib")
CUBIN_HEAD = 64
AR_MAGIC, AR_HEADER = b"!<arch>\n", 60
MOST_MEMBERS = 100_000


def is_read(places: Collection[str]) -> bool:
    """Whether a reader knows every section and file (`*.co`) that a backend has its code in."""
    return bool(places) and all(place in SECTIONS or place.removeprefix("*.") in FILES for place in places)


def containers_of(elf: Elf) -> Iterator[Container]:
    """Every container of a library. Raises Damaged if headers contradict each other."""
    left = MOST_ENTRIES
    sections = [section for name in SECTIONS for section in elf.named(name)]
    containers = chain.from_iterable(walk(elf.source, part, SECTIONS[part.name]) for part in sections)
    for container in containers if sections or _names_its_parts(elf) else scan(elf.source, MAGICS):
        left -= len(container.entries) + 1
        if left < 0:
            raise Damaged(f"more than {MOST_ENTRIES} pieces of GPU code")
        yield container


def _names_its_parts(elf: Elf) -> bool:
    """Whether the sections prove that there is no GPU code: not if they are gone, or a run time is linked."""
    return bool(elf.sections) and not any(name.startswith(RUNTIMES) for name in links_of(elf).needed)


def containers_of_file(source: FileSlice, name: str) -> Iterator[Container]:
    """GPU code in a static library, or in a file of its own, by its first bytes or else by its name."""
    head = source.read(0, min(CUBIN_HEAD, source.size))
    by_content = "fatbin" if head.startswith(fatbin.MAGIC) else "cubin" if fatbin.is_cubin(head) else ""
    match by_content or name.rpartition(".")[2]:
        case "a":
            for member in _members(source):
                if member.size > 4 and member.read(0, 4) == b"\x7fELF":
                    try:
                        yield from containers_of(read_elf(member))
                    except NotElf:
                        continue  # an object for another machine
        case "fatbin":
            yield from scan(source, MAGICS)
        case "cubin":
            yield fatbin.cubin(source)
        case "metallib":
            yield Container(UNNAMED, 0, read_at(metallib, source, 0, source.size, "its beginning")[0])
        case _:
            yield Container(UNNAMED, 0, bundle.code_object(source))


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
        yield source.part(at + AR_HEADER, size)
        at += AR_HEADER + size + size % 2
