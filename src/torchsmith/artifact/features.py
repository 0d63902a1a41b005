"""Which CPU features a piece of machine code needs, instruction by instruction."""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from torchsmith.artifact import x86
from torchsmith.artifact.elf import Machine

DATA = Path(__file__).parent / "data"
LEGACY_SSE = "sse2"  # in every x86-64 CPU; without VEX it shows a compiler that was not told of AVX


@dataclass(frozen=True, slots=True)
class Use:
    """An instruction that needs more than the oldest CPU of its architecture has."""

    offset: int  # in its function
    code: bytes
    features: tuple[str, ...]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instructions of x86-64, by their encoding."""

    encoding: str
    map: int
    opcodes: str
    feature: str = ""
    prefix: tuple[int, ...] = ()
    length: tuple[int, ...] = ()
    wide: int | None = None
    memory: int | None = None

    def matches(self, found: x86.Instruction) -> bool:
        """Whether an instruction of the rule's encoding, map and opcodes is one that it means."""
        return (
            (not self.prefix or found.prefix in self.prefix)
            and (not self.length or found.length in self.length)
            and self.wide in (None, found.wide)
            and self.memory in (None, found.memory)
        )


class X86(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """data/x86.toml."""

    source: str
    baseline: Rule
    evidence: tuple[str, ...]
    rules: tuple[Rule, ...]
    scalar: tuple[Rule, ...]
    implied: dict[str, tuple[str, ...]]


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instruction words that have a value under a mask."""

    mask: int
    value: int
    feature: str = ""
    but: Word | None = None

    def matches(self, word: int) -> bool:
        return word & self.mask == self.value and not (self.but and self.but.matches(word))


class Aarch64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """data/aarch64.toml."""

    source: str
    evidence: tuple[str, ...]
    rules: tuple[Word, ...]
    implied: dict[str, tuple[str, ...]]


@cache
def x86_facts() -> X86:
    return msgspec.convert(tomllib.loads((DATA / "x86.toml").read_text()), X86)


@cache
def aarch64_facts() -> Aarch64:
    return msgspec.convert(tomllib.loads((DATA / "aarch64.toml").read_text()), Aarch64)


def facts(machine: Machine) -> X86 | Aarch64:
    """The facts about an architecture's instructions."""
    return x86_facts() if machine == "x86_64" else aarch64_facts()


def closure(machine: Machine, features: Iterable[str]) -> frozenset[str]:
    """Features with all that they imply."""
    implied = facts(machine).implied
    named = set(features)
    return frozenset(named.union(*(implied.get(name, ()) for name in named)))


def uses(machine: Machine, code: bytes) -> Iterator[Use]:
    """The instructions of a function that need a feature; x86.Lost where bytes are no instruction."""
    return _x86_uses(code) if machine == "x86_64" else _aarch64_uses(code)


def _x86_uses(code: bytes) -> Iterator[Use]:
    for offset, size, found in x86.telling(code):
        features = x86_needs(found)
        if features:
            yield Use(offset, code[offset : offset + size], features)


@lru_cache(maxsize=65536)
def x86_needs(found: x86.Instruction) -> tuple[str, ...]:
    """The features of one x86-64 instruction, the telling one last; none for what every CPU has."""
    key = (found.encoding, found.map, found.opcode)
    feature = next((rule.feature for rule in _index()[0].get(key, ()) if rule.matches(found)), "")
    if found.encoding == x86.LEGACY:
        return (feature,) if feature else (LEGACY_SSE,) if key in _baseline() else ()
    if found.encoding == x86.VEX:
        return (feature,) if feature in ("bmi1", "bmi2") else ("avx", feature) if feature else ("avx",)
    scalar = any(rule.matches(found) for rule in _index()[1].get(key, ()))
    wider = () if scalar or found.length == 2 else ("avx512vl",)
    return ("avx512f", *wider, *((feature,) if feature else ()))


Index = dict[tuple[str, int, int], list[Rule]]


@cache
def _index() -> tuple[Index, Index]:
    return _by_opcode(x86_facts().rules), _by_opcode(x86_facts().scalar)


@cache
def _baseline() -> Index:
    return _by_opcode([x86_facts().baseline])


def _by_opcode(rules: Iterable[Rule]) -> Index:
    index: Index = {}
    for rule in rules:
        for part in rule.opcodes.split():
            first, _, last = part.partition("-")
            for opcode in range(int(first, 16), int(last or first, 16) + 1):
                index.setdefault((rule.encoding, rule.map, opcode), []).append(rule)
    return index


def _aarch64_uses(code: bytes) -> Iterator[Use]:
    tops = _tops()
    if not set(code[3::4]).intersection(tops):
        return
    for index, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) - len(code) % 4])):
        if word >> 24 in tops:
            features = aarch64_needs(word)
            if features:
                yield Use(index * 4, code[index * 4 : index * 4 + 4], features)


@lru_cache(maxsize=65536)
def aarch64_needs(word: int) -> tuple[str, ...]:
    """The features of one AArch64 instruction word, the telling one last."""
    return tuple(dict.fromkeys(rule.feature for rule in _tops().get(word >> 24, ()) if rule.matches(word)))


@cache
def _tops() -> dict[int, list[Word]]:
    """The rules that can match a word, by the word's highest byte."""
    rules = aarch64_facts().rules
    tops = {
        top: [rule for rule in rules if (top << 24) & rule.mask == rule.value & 0xFF000000]
        for top in range(256)
    }
    return {top: found for top, found in tops.items() if found}
