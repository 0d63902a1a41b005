"""ELF64 files of either CPU architecture, read piece by piece; no header is believed before it is checked."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torchsmith.artifact.source import Damaged, FileSlice
from torchsmith.core.problem import Exit
from torchsmith.core.text import printable

ElfMachine = Literal["x86_64", "aarch64"]
MACHINES: dict[int, ElfMachine] = {62: "x86_64", 183: "aarch64"}

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC = struct.Struct("<qQ")

SYMTAB, STRTAB, DYNAMIC_KIND, NOBITS, DYNSYM = 2, 3, 6, 8, 11
NEEDED, SONAME, RPATH, RUNPATH, FLAGS_1 = 1, 14, 15, 29, 0x6FFFFFFB
PROGRAM, PIE = 2, 0x8000000  # a type of file, and a flag of the loader
FUNCTION, FILE, GNU_IFUNC = 2, 4, 10
LOCAL, GLOBAL = 0, 1
DEFAULT = 0  # visibility: not hidden
EXECUTABLE = 4

MOST_SECTIONS = 100_000
# libtorch_cpu.so has 549 thousand symbols in torch 2.10 (x86_64), 798 thousand in 2.11 (aarch64).
MOST_SYMBOLS = 1_000_000
MOST_STRINGS = 160 << 20
MOST_OVERLAP = 2  # names may share their ends, so together they can be longer than their table
MOST_DYNAMIC = 20_000
LONGEST_NAME = 4096  # of a function; the longest of torch 2.10 has 1467 characters
LONGEST_FILE_NAME = 1024
LONGEST_FUNCTION = 16 << 20  # bytes; the rest of a longer one is not read


class NotElf(Damaged):
    """A file that is not an ELF library."""

    exit = Exit.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class Section:
    """A named run of bytes in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int

    @property
    def holds_code(self) -> bool:
        return bool(self.flags & EXECUTABLE) and self.kind != NOBITS


class Function(NamedTuple):
    """A symbol that names code; its name, and its source file's, are places in the string table."""

    address: int
    size: int
    name_at: int
    section: int
    binding: int
    unit: int  # the place of its source file among the units, -1 if the table has none


@dataclass(frozen=True, slots=True)
class Links:
    """The dynamic section's requests to the loader."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    runpath: tuple[str, ...] = ()
    program: bool = False  # which the loader does not load into another one


@dataclass(frozen=True, slots=True)
class Elf:
    """A readable ELF file and its sections."""

    source: FileSlice
    machine: ElfMachine
    kind: int
    sections: tuple[Section, ...]

    def named(self, *names: str) -> Iterator[Section]:
        """The sections of these names that have bytes in the file."""
        return (section for section in self.sections if section.name in names and section.kind != NOBITS)

    def of_kind(self, kind: int) -> Section | None:
        return next((section for section in self.sections if section.kind == kind), None)

    def bytes_of(self, section: Section, most: int = MOST_STRINGS) -> bytes:
        """A whole section. Raises Damaged when it is larger than such a section can be."""
        if section.size > most:
            raise Damaged(f"section {section.name} claims {section.size} bytes, more than it can have")
        return self.source.read(section.offset, section.size)

    def rows_of(
        self, section: Section, row: struct.Struct, most: int = MOST_STRINGS
    ) -> Iterator[tuple[int, ...]]:
        """The whole rows of a section that is a table; Damaged when it is larger than `most` bytes."""
        data = self.bytes_of(section, most)
        return row.iter_unpack(data[: len(data) - len(data) % row.size])

    def strings_of(self, section: Section) -> bytes:
        """The string table that a section's entries point into. Raises Damaged."""
        if not 0 < section.link < len(self.sections) or self.sections[section.link].kind != STRTAB:
            raise Damaged(f"section {section.name} names no string table")
        return self.bytes_of(self.sections[section.link])


def read_elf(source: FileSlice) -> Elf:
    """Read the headers of an ELF file. Raises NotElf, Damaged."""
    if source.size == 0:
        raise NotElf("an empty file")
    head = source.read(0, min(HEADER.size, source.size))
    if head[:4] != b"\x7fELF":
        raise NotElf("not an ELF file")
    if len(head) < HEADER.size:
        raise Damaged(f"an ELF file cut off after {len(head)} bytes")
    if head[4] != 2 or head[5] != 1:
        raise NotElf("an ELF file, but not a 64-bit little-endian one")
    fields = HEADER.unpack(head)
    machine = MACHINES.get(fields[2])
    if machine is None:
        raise NotElf(f"an ELF file for another machine (number {fields[2]})")
    return Elf(source, machine, fields[1], _sections(source, fields[6], fields[11], fields[12], fields[13]))


def _sections(source: FileSlice, at: int, entry: int, count: int, names_index: int) -> tuple[Section, ...]:
    """The section table; a count or index too large for its field is in section 0."""
    if at == 0:
        return ()
    if entry != SECTION.size:
        raise Damaged(f"its section headers have {entry} bytes, not {SECTION.size}")
    first = SECTION.unpack(source.read(at, SECTION.size))
    count = count or first[5]
    names_index = first[6] if names_index == 0xFFFF else names_index
    if count > MOST_SECTIONS or at + count * SECTION.size > source.size:
        raise Damaged(f"its table of {count} sections reaches beyond the end of the file")
    if not names_index < count:
        raise Damaged(f"its section names are in section {names_index} of {count}")
    rows = list(SECTION.iter_unpack(source.read(at, count * SECTION.size)))
    place, size = rows[names_index][4:6]
    if size > MOST_STRINGS:
        raise Damaged(f"its table of section names claims {size} bytes")
    names = source.read(place, size)
    return tuple(_section(source, row, names) for row in rows)


def _section(source: FileSlice, row: tuple[int, ...], names: bytes) -> Section:
    name = text_at(names, row[0], LONGEST_FILE_NAME)
    if row[1] not in (0, NOBITS) and row[4] + row[5] > source.size:
        raise Damaged(f"section {name or '(no name)'} reaches beyond the end of the file")
    _, kind, flags, address, offset, size, link = row[:7]
    return Section(name, kind, flags, address, offset, size, link)


def text_at(strings: bytes, at: int, most: int = LONGEST_NAME) -> str:
    """The text that starts at a place of a string table: printable, at most `most` bytes. Raises Damaged."""
    if at >= len(strings):
        raise Damaged(f"a name at {at:#x} is outside its string table")
    return printable(raw_at(strings, at, most).decode("utf-8", "replace"))


def raw_at(strings: bytes, at: int, most: int) -> bytes:
    """The bytes of a string table from a place to the next zero, at most `most`."""
    end = strings.find(b"\0", at, at + most)
    return strings[at : end if end >= 0 else at + most]


def links_of(elf: Elf) -> Links:
    """The shared libraries a file needs, its own name, and its search path."""
    section = elf.of_kind(DYNAMIC_KIND)
    if section is None:
        return Links(program=elf.kind == PROGRAM)
    strings = elf.strings_of(section)
    texts: dict[int, list[str]] = {}
    program = elf.kind == PROGRAM
    for tag, value in elf.rows_of(section, DYNAMIC, MOST_DYNAMIC * DYNAMIC.size):
        if tag == 0:
            break
        if tag in (NEEDED, SONAME, RPATH, RUNPATH):
            texts.setdefault(tag, []).append(text_at(strings, value, LONGEST_FILE_NAME * 16))
        program = program or (tag == FLAGS_1 and bool(value & PIE))
    paths = [path for tag in (RPATH, RUNPATH) for text in texts.get(tag, []) for path in text.split(":")]
    soname = next(iter(texts.get(SONAME, [])), "")
    return Links(tuple(texts.get(NEEDED, [])), soname, tuple(filter(None, paths)), program)


@dataclass(slots=True)
class Functions:
    """The functions a file names, and the table of their names."""

    rows: list[Function]
    units: list[str]  # names of source files in the order in which they were linked
    strings: bytes
    stripped: bool  # only exported functions are named
    read: int = 0  # characters of names so far

    def name(self, function: Function) -> str:
        return text_at(self.strings, function.name_at)

    def raw_name(self, function: Function) -> bytes:
        raw = raw_at(self.strings, function.name_at, LONGEST_NAME)
        self.read += len(raw)
        if self.read > MOST_OVERLAP * len(self.strings) + (1 << 20):
            what = f"{MOST_OVERLAP} times the table they are in"
            raise Damaged(f"its functions' names are longer than {what}")
        return raw


def functions_of(elf: Elf) -> Functions:
    """All named functions with code, from the full symbol table or else from the exported one."""
    table = elf.of_kind(SYMTAB)
    stripped = table is None
    table = table or elf.of_kind(DYNSYM)
    if table is None:
        return Functions([], [], b"", stripped=True)
    rows = elf.rows_of(table, SYMBOL, MOST_SYMBOLS * SYMBOL.size)
    strings = elf.strings_of(table)
    units: list[str] = []
    return Functions(list(_functions(rows, strings, units, len(elf.sections))), units, strings, stripped)


def _functions(
    rows: Iterable[tuple[int, ...]], strings: bytes, units: list[str], sections: int
) -> Iterator[Function]:
    """The functions of a symbol table, which names a source file before its local symbols.

    Hidden functions become local at link time and keep their visibility: their source file is not known.
    """
    unit = -1
    for name_at, info, other, section, address, size in rows:
        kind = info & 15
        if kind == FILE:
            units.append(text_at(strings, name_at, LONGEST_FILE_NAME))
            unit = len(units) - 1 if units[-1] else -1
        elif kind in (FUNCTION, GNU_IFUNC) and size and 0 < section < sections:
            binding, visibility = info >> 4, other & 3
            of_file = binding == LOCAL and visibility == DEFAULT
            yield Function(address, size, name_at, section, binding, unit if of_file else -1)


def place_of(elf: Elf, function: Function) -> tuple[int, int]:
    """Where a function's instructions are in the file and how many bytes they are, at most LONGEST_FUNCTION;
    none if its section has no code."""
    section = elf.sections[function.section]
    start = function.address - section.address
    if not section.holds_code or start < 0 or start >= section.size:
        return 0, 0
    return section.offset + start, min(function.size, LONGEST_FUNCTION, section.size - start)
