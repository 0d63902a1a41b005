"""Where GPU code is, in sections of libraries and in files of its own, and which reader knows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from torchsmith.artifact import bundle, fatbin
from torchsmith.artifact.container import MOST_ENTRIES, UNNAMED, Container, Reader, read_at, scan, walk
from torchsmith.artifact.elf import Elf, links_of
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


def is_read(places: Collection[str]) -> bool:
    """Whether a reader knows every section and file (`*.co`) that a backend has its code in."""
    return bool(places) and all(place in SECTIONS or place.removeprefix("*.") in FILES for place in places)


def containers_of(elf: Elf) -> Iterator[Container]:
    """Every container of a library; without a section for them, they may be anywhere in it. Raises Damaged if
    headers contradict each other."""
    sections = [section for name in SECTIONS for section in elf.named(name)]
    left = MOST_ENTRIES
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
    """GPU code in a file of its own, by its first bytes or else by its name."""
    head = source.read(0, min(CUBIN_HEAD, source.size))
    by_content = "fatbin" if head.startswith(fatbin.MAGIC) else "cubin" if fatbin.is_cubin(head) else ""
    match by_content or name.rpartition(".")[2]:
        case "fatbin":
            yield from scan(source, MAGICS)
        case "cubin":
            yield fatbin.cubin(source)
        case "metallib":
            yield Container(UNNAMED, 0, read_at(metallib, source, 0, source.size, "its beginning")[0])
        case _:
            yield Container(UNNAMED, 0, bundle.code_object(source))
