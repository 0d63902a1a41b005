"""Which CPU features a piece of machine code needs, instruction by instruction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.tables import Table, read_table


class InstructionFacts(Table, frozen=True):
    """Facts about an architecture's instructions, however they are decoded."""

    source: str
    implied: dict[str, tuple[str, ...]]


class X86(InstructionFacts, frozen=True):
    """data/x86.toml."""

    iced: dict[str, str]


class Word(Table, frozen=True):
    """Instruction words that have a value under a mask."""

    mask: int
    value: int
    feature: str = ""
    but: Word | None = None

    def matches(self, word: int) -> bool:
        return word & self.mask == self.value and not (self.but and self.but.matches(word))


class Aarch64(InstructionFacts, frozen=True):
    """data/aarch64.toml."""

    rules: tuple[Word, ...]


@cache
def x86_facts() -> X86:
    return read_table("x86.toml", X86)


@cache
def aarch64_facts() -> Aarch64:
    return read_table("aarch64.toml", Aarch64)


def facts(machine: ElfMachine) -> X86 | Aarch64:
    """The facts about an architecture's instructions."""
    return x86_facts() if machine == "x86_64" else aarch64_facts()


def closure(machine: ElfMachine, features: Iterable[str]) -> frozenset[str]:
    """Features with all that they imply."""
    implied = facts(machine).implied
    named = set(features)
    return frozenset(named.union(*(implied.get(name, ()) for name in named)))


def features_aarch64(code: bytes) -> tuple[str, ...]:
    """The features of a function."""
    words = {
        int.from_bytes(code[4 * match.start() : 4 * match.end()], "little")
        for match in _top_pattern().finditer(code[3::4])
    }
    return tuple(sorted({feature for word in words for feature in aarch64_needs(word)}))


@cache
def _top_pattern() -> re.Pattern[bytes]:
    """A pattern for the highest bytes of words that may need a feature."""
    return re.compile(b"[" + b"".join(re.escape(bytes([top])) for top in sorted(_tops())) + b"]")


@lru_cache(maxsize=65536)
def aarch64_needs(word: int) -> tuple[str, ...]:
    """The features of one AArch64 instruction word, the most specific last."""
    return tuple(dict.fromkeys(rule.feature for rule in _tops().get(word >> 24, ()) if rule.matches(word)))


@cache
def _tops() -> dict[int, list[Word]]:
    """The rules that can match a word, by the word's highest byte."""
    rules = aarch64_facts().rules
    tops = {
        top: [rule for rule in rules if (top << 24) & rule.mask == rule.value & 0xFF000000]
        for top in range(256)
    }
    return {top: rules for top, rules in tops.items() if rules}
