"""The compile flags that a library embeds as text, and which instruction set they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.features import closure, known_features
from torchsmith.catalog import Isa

# PyTorch's text: `..., CXX_FLAGS=-mavx2 -O2, LAPACK_INFO=mkl, ...`
CXX_FLAGS = re.compile(r"\bCXX_FLAGS=(.*?)(?:,\s+[A-Z][A-Z0-9_]*=|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StatedFlags:
    """What embedded flags say of an instruction set."""

    names: bool  # all its flags, and none that allows more
    other: bool  # they are those of another set
    text: str


def flag_words(text: str) -> list[str]:
    """The single flags of an embedded text; what the library holds just before it may stick to the first:
    gcc writes a long text as vector constants, which end without a zero."""
    found = CXX_FLAGS.search(text)
    first, *rest = (found[1] if found else text).split() or [""]
    return [re.sub(r"^.*(?=-m)", "", first), *rest]


def stated(text: str, machine: ElfMachine, isa: Isa) -> StatedFlags | None:
    """What an embedded text says of a set; nothing where a wrapper added the flags."""
    words = flag_words(text)
    absent = [flag for flag in isa.flags if flag not in words]
    allowed = closure(machine, (*isa.features, *isa.beyond_flags))
    beyond = [flag for flag, feature in _features(words, machine) if feature not in allowed]
    march = [word for word in words if word.startswith("-march=") and word not in isa.flags]
    same = any(all(flag in words for flag in flags) for flags in isa.other_flags)
    other = beyond + ([] if same else march)
    if not other and (not absent or same):
        return StatedFlags(names=True, other=False, text="its embedded flags name the set")
    some = [flag for flag in isa.flags if flag in words]
    if not some and not other:
        return None
    parts = [f"name {' '.join([*some, *other])}"]
    parts += [f"lack {' '.join(absent)}"] if absent and not same else []
    return StatedFlags(names=False, other=True, text=f"its embedded flags {' and '.join(parts)}")


def _features(words: Iterable[str], machine: ElfMachine) -> Iterable[tuple[str, str]]:
    """Flags that allow one feature, as -mavx512bf16 does avx512_bf16."""
    spelled = {feature.replace("_", ""): feature for feature in known_features(machine)}
    for word in words:
        name = re.sub(r"[._-]", "", word[2:]) if word.startswith("-m") else ""
        if name in spelled:
            yield word, spelled[name]
