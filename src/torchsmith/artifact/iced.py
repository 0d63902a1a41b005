"""x86-64 instructions by iced-x86; if it is missing, x86-64 code is not judged."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from torchsmith.artifact.features import x86_facts


class _ReadWhenUsed:
    """iced-x86, imported at its first use: it has thousands of names, and most verbs decode no code."""

    def __getattr__(self, name: str) -> Any:
        import iced_x86

        vars(self)[name] = value = getattr(iced_x86, name)
        return value


iced_x86: Any = _ReadWhenUsed()
INSTALLED = find_spec("iced_x86") is not None

MISSING = "iced-x86 reads x86-64 code and is not installed; it has no wheel for macOS on ARM"
INVALID = 0


def features_x86(code: bytes) -> tuple[tuple[str, ...], bool]:
    """The features of a function up to bytes that are not an instruction, and whether it holds such bytes."""
    kinds: set[int] = {instruction.code for instruction in iced_x86.Decoder(64, code)}
    undecoded = INVALID in kinds
    if undecoded:
        every = (instruction.code for instruction in iced_x86.Decoder(64, code))
        kinds = set(takewhile(lambda kind: kind != INVALID, every))
    return tuple(sorted({feature for kind in kinds for feature in needs(kind)})), undecoded


@cache
def needs(kind: int) -> tuple[str, ...]:
    """The features of one of iced's instruction codes, the most specific last."""
    instruction = iced_x86.Instruction()
    instruction.code = kind  # type: ignore[assignment,unused-ignore]
    info = instruction.op_code()
    features = [_names()[number] for number in instruction.cpuid_features() if number in _names()]
    encodings = iced_x86.EncodingKind
    if info.encoding == encodings.LEGACY:
        return tuple(name for name in features if name != "bmi1")  # tzcnt runs as bsf on older CPUs
    if info.encoding == encodings.VEX and not {"bmi1", "bmi2"}.intersection(features):
        features.insert(0, "avx")
    if info.encoding == encodings.EVEX:
        features[:0] = ["avx", "avx512f"]
    return tuple(dict.fromkeys(features))


@cache
def _names() -> dict[int, str]:
    """Our name of each of iced's features; an older iced has fewer."""
    known = x86_facts().iced
    return {
        getattr(iced_x86.CpuidFeature, name): ours
        for name, ours in known.items()
        if hasattr(iced_x86.CpuidFeature, name)
    }
