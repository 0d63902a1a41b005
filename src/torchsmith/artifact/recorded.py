"""The compiler's command lines that a library records, and the instruction set that each one was for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from torchsmith.artifact.elf import Elf, ElfMachine
from torchsmith.artifact.tables import Table, read_table
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.core.text import printable

SECTION = ".GCC.command.line"
MOST_BYTES = 16 << 20  # a line has 200, and libtorch_cpu.so some dozens
SEED = "-frandom-seed="  # differs between builds of one object
# How a unit was reached: by CFLAGS or CXXFLAGS, as the host half of a CUDA unit, or by neither.
Mark = Literal["cxx", "host", ""]


class TargetOptions(Table, frozen=True):
    """What options mean on one architecture."""

    default: str
    archs: dict[str, tuple[str, ...]]
    implied: dict[str, tuple[str, ...]]
    also: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    spelled: Mapping[str, str] = MappingProxyType({})

    def change(self, word: str) -> tuple[str, bool] | None:
        """The feature that a word such as `avx2` or `no-avx2` is about, and whether it adds it."""
        word = self.spelled.get(word, word)
        if word in self.implied:
            return word, True
        opposite = word.removeprefix("no").removeprefix("-")
        return (opposite, False) if word.startswith("no") and opposite in self.implied else None

    def with_implied(self, feature: str) -> set[str]:
        """A feature and all that it implies."""
        return {feature}.union(*map(self.with_implied, self.implied[feature]))

    def without(self, features: set[str], feature: str) -> set[str]:
        """Features less one and all that imply it."""
        return {name for name in features if feature not in self.with_implied(name)}


class GccOptions(Table, frozen=True):
    """data/gcc.toml."""

    source: str
    x86_64: TargetOptions
    aarch64: TargetOptions


@cache
def target_options(machine: ElfMachine) -> TargetOptions:
    known = read_table("gcc.toml", GccOptions)
    return known.x86_64 if machine == "x86_64" else known.aarch64


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A command line, less the seed, which differs between builds of one object."""

    text: str
    mark: Mark
    features: frozenset[str] | None  # that it lets the compiler use; None: for an unknown CPU
    changes: frozenset[tuple[str, bool]] = frozenset()  # single features that it adds or removes

    @property
    def machine_options(self) -> str:
        """The options that choose the instructions."""
        words = self.text.split()
        return " ".join(word for word in words if word.startswith("-m") and not word.startswith("-mtune"))


def recorded_lines(elf: Elf) -> tuple[RecordedLine, ...]:
    """The command lines that the objects of a library record, each once. Raises Damaged."""
    texts = (
        text.decode("utf-8", "replace")
        for section in elf.named(SECTION)
        for text in elf.bytes_of(section, MOST_BYTES).split(b"\0")
    )
    words = ([word for word in printable(text).split() if not word.startswith(SEED)] for text in texts)
    lines = dict.fromkeys(tuple(line) for line in words if line)
    return tuple(line_of(elf.machine, line) for line in lines)


def line_of(machine: ElfMachine, options: Sequence[str]) -> RecordedLine:
    """A command line with what it means."""
    changes = frozenset(single_changes(machine, options).items())
    return RecordedLine(" ".join(options), mark_of(options), allowed(machine, options), changes)


def mark_of(options: Sequence[str]) -> Mark:
    """How a unit was reached; nvcc's host compiler may get CXXFLAGS too."""
    return "host" if HOST_MARK in options else "cxx" if CXX_MARK in options else ""


def single_changes(machine: ElfMachine, options: Iterable[str]) -> dict[str, bool]:
    """The last word about each feature, in order: an earlier one is cancelled."""
    changes: dict[str, bool] = {}
    words = (option[2:] for option in options if option.startswith("-m"))
    for feature, on in filter(None, map(target_options(machine).change, words)):
        changes.pop(feature, None)
        changes[feature] = on
    return changes


def allowed(machine: ElfMachine, options: Sequence[str]) -> frozenset[str] | None:
    """The features that options let the compiler use; None if they name a CPU that the data does not have.

    The architecture comes first wherever it is written, then single features in order.
    """
    known = target_options(machine)
    words = [option[2:] for option in options if option.startswith("-m")]
    archs = [word.partition("=")[2] for word in words if word.startswith(("arch=", "cpu="))]
    arch, *modifiers = (archs[-1] if archs else known.default).split("+")
    changes = [known.change(word) for word in modifiers]
    if arch not in known.archs or None in changes:
        return None
    single = single_changes(machine, options)
    features = set[str]().union(*map(known.with_implied, known.archs[arch]))
    for feature, on in (*filter(None, changes), *single.items()):
        features = features | known.with_implied(feature) if on else known.without(features, feature)
    also = (name for feature, names in known.also.items() if feature in features for name in names)
    return frozenset(features.union(name for name in also if single.get(name, True)))
