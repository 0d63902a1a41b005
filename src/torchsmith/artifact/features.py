"""Which CPU features a piece of machine code needs, instruction by instruction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.tables import Table, read_table

LEGACY_SSE = "sse2"  # in every x86-64 CPU; without VEX it shows a compiler without the flag for AVX
TWO_STEPS = "broadcast in two steps"  # shows a compiler with the flag for AVX and without that for AVX-512


@dataclass(frozen=True, slots=True)
class Use:
    """An instruction that needs more than the oldest CPU of its architecture has."""

    offset: int  # in its function
    code: bytes


class Level(Table, frozen=True):
    """Features of which one shows up in code for a set: in at least `share` of the functions with vectors,
    where there are `enough` of them. Without a share, code that uses none proves nothing. `older` is shown by
    functions that were compiled without the set."""

    features: tuple[str, ...]
    older: str = ""
    share: float = 0.0
    enough: int = 0


class InstructionFacts(Table, frozen=True):
    """Facts about an architecture's instructions, however they are decoded."""

    source: str
    evidence: tuple[Level, ...]
    modern: str
    legacy: str
    legacy_words: str
    implied: dict[str, tuple[str, ...]]

    @property
    def older(self) -> frozenset[str]:
        """What shows a compiler without the flags of a set, and needs no feature of a CPU."""
        return frozenset((self.legacy, *(level.older for level in self.evidence if level.older)))


class X86(InstructionFacts, frozen=True):
    """data/x86.toml."""

    baseline: str
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


@cache
def known_features(machine: ElfMachine) -> frozenset[str]:
    """The features that instructions are classified by."""
    if machine == "x86_64":
        return frozenset(x86_facts().iced.values())
    return frozenset(rule.feature for rule in aarch64_facts().rules)


CALL = frozenset(range(0x94, 0x98))  # the highest byte of BL
# ADRP x16; LDRB w16, [x16, ...]; CBZ w16: how libgcc's outline atomics ask for the CPU's own.
X16 = rb"[\x10\x30\x50\x70\x90\xb0\xd0\xf0].."
OUTLINE = re.compile(X16 + rb"[\x90\xb0\xd0\xf0]\x10[\x02-\xfe].\x39" + X16 + rb"\x34", re.DOTALL)
BTI = b"\x5f\x24\x03\xd5"


def outline_atomics(code: bytes, address: int) -> Iterator[int]:
    """Where outline atomics begin in a section of AArch64 code, named or not."""
    for match in OUTLINE.finditer(code):
        at = match.start()
        if at % 4 == 0 and match[0][5] & 3 == 2:
            yield address + (at - 4 if code[at - 4 : at] == BTI else at)


def scan_aarch64(code: bytes, address: int, outline: frozenset[int]) -> dict[str, Use]:
    """The first word of a function that needs each feature, calls of the outline atomics among them."""
    outline_call: tuple[str, ...] = (aarch64_facts().legacy,)
    first: dict[str, Use] = {}
    for match in _top_pattern(bool(outline)).finditer(code[3::4]):
        at = 4 * match.start()
        word = int.from_bytes(code[at : at + 4], "little")
        if word >> 24 in CALL:
            target = address + at + 4 * ((word & 0x3FFFFFF) - (word << 1 & 0x4000000))
            features = outline_call if target in outline else ()
        else:
            features = aarch64_needs(word)
        for feature in features:
            if feature not in first:
                first[feature] = Use(at, code[at : at + 4])
    return first


@cache
def _top_pattern(calls: bool) -> re.Pattern[bytes]:
    """A pattern for the highest bytes of words that may need a feature."""
    tops = sorted({*_tops(), *(CALL if calls else ())})
    return re.compile(b"[" + b"".join(re.escape(bytes([top])) for top in tops) + b"]")


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
