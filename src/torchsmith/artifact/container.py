"""GPU code of a library or a file: containers of one compilation each, in any vendor's format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from torchsmith.artifact.elf import Section
from torchsmith.artifact.source import Damaged, FileSlice
from torchsmith.catalog.axes import CodeTarget

UNNAMED = "(no section)"  # found by its magic number alone
ALIGNMENT = 8
LONGEST_GAP = 1 << 20  # zeros between containers come from alignment
MOST_ENTRIES = 500_000
MOST_FALSE = 8  # containers that turn out to be none


class CodeKind(StrEnum):
    """What an entry holds."""

    PTX = "ptx"
    CUBIN = "cubin"
    LTO = "lto"
    HSACO = "hsaco"  # machine code of an AMD GPU
    SPIRV = "spirv"
    METALLIB = "metallib"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """One piece of GPU code: for which target, in which form, and the bytes it takes with its header."""

    kind: CodeKind
    target: CodeTarget
    size: int
    empty: bool = False  # there is a header and no code


@dataclass(frozen=True, slots=True)
class Container:
    """The GPU code of one compilation: the same functions for several targets."""

    section: str
    offset: int  # in its section
    entries: tuple[CodeEntry, ...]


class NoContainer(Exception):
    """A place that does not begin as a container of GPU code does."""


# Reads the container between two offsets, whose place the text names in messages: its entries, and its end.
Reader = Callable[[FileSlice, int, int, str], tuple[tuple[CodeEntry, ...], int]]


def read_at(
    read: Reader, source: FileSlice, at: int, end: int, place: str
) -> tuple[tuple[CodeEntry, ...], int]:
    """The entries at a place where a container must be, and where they end. Raises Damaged."""
    try:
        return read(source, at, end, place)
    except NoContainer as fault:
        raise Damaged(str(fault)) from fault


def walk(source: FileSlice, section: Section, read: Reader) -> Iterator[Container]:
    """The containers of a section, which follow each other with zeros between them."""
    at, end = section.offset, section.offset + section.size
    while (at := _next_start(source, section, at, end)) < end:
        start = at
        entries, at = read_at(read, source, start, end, f"{section.name} + {start - section.offset:#x}")
        yield Container(section.name, start - section.offset, entries)


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


def scan(source: FileSlice, readers: dict[bytes, Reader]) -> Iterator[Container]:
    """Containers anywhere in a file by their formats' magic bytes, which may be in other places too: if
    their headers are valid throughout."""
    end, false = 0, 0
    for at, magic in source.search(*readers):
        if at < end:
            continue
        try:
            entries, end = readers[magic](source, at, source.size, f"{at:#x}")
        except NoContainer:
            continue
        except Damaged:
            false += 1
            if false > MOST_FALSE:
                raise
            continue
        yield Container(UNNAMED, at, entries)
