"""x86-64 instructions by iced-x86; where it is missing, x86-64 code is not judged."""

from __future__ import annotations

from collections.abc import Collection, Container
from functools import cache
from importlib.util import find_spec
from typing import Any

from torchsmith.artifact.features import LEGACY_SSE, TWO_STEPS, Use, x86_facts


class _ReadWhenUsed:
    """iced-x86, read at its first use: thousands of names, and most verbs that may judge code judge none."""

    def __getattr__(self, name: str) -> Any:
        import iced_x86

        vars(self)[name] = value = getattr(iced_x86, name)
        return value


iced_x86: Any = _ReadWhenUsed()
INSTALLED = find_spec("iced_x86") is not None

MISSING = "iced-x86 reads x86-64 code and is not installed; it has no wheel for macOS on ARM"
INVALID = 0
DISTANCE = 4  # instructions at most between the two steps of a broadcast


def features_x86(code: bytes) -> tuple[tuple[str, ...], bool]:
    """The features of a function, and whether it holds bytes that are no instruction: what `scan_x86` says
    without the places, in two thirds of the time."""
    kinds: set[int] = {instruction.code for instruction in iced_x86.Decoder(64, code)}
    if INVALID in kinds:
        return tuple(sorted(scan_x86(code))), True
    features: set[str] = set()
    for kind in kinds - _plain:
        named = needs(kind)
        features.update(named)
        if not named:
            _plain.add(kind)
    if _may_take_two_steps(features, kinds):
        features.update(_two_steps(code))
    return tuple(sorted(features)), False


_plain: set[int] = set()  # kinds of instructions that need nothing, as they were met


def _may_take_two_steps(features: Container[str], kinds: Collection[int]) -> bool:
    return "avx512f" not in features and not _moves().isdisjoint(kinds) and not _copies().isdisjoint(kinds)


def scan_x86(code: bytes) -> dict[str, Use]:
    """The first instruction of each feature in a function, up to bytes that are no instruction."""
    first: dict[int, tuple[int, int]] = {}  # place and size, by iced's code
    for instruction in iced_x86.Decoder(64, code):
        kind: int = instruction.code
        if kind not in first:
            first[kind] = (instruction.ip, instruction.len)
    end = first.get(INVALID, (len(code), 0))[0]
    seen: dict[str, Use] = {}
    for kind, (at, size) in first.items():
        if at < end:
            for feature in needs(kind):
                known = seen.get(feature)
                if known is None or at < known.offset:
                    seen[feature] = Use(at, code[at : at + size])
    if _may_take_two_steps(seen, first):
        seen.update(_two_steps(code))
    return seen


def _two_steps(code: bytes) -> dict[str, Use]:
    """Where a number goes from a general register into all parts of a vector by way of its first part: with
    AVX-512 this is a single instruction, which compilers that may use it prefer."""
    moved: dict[int, int] = {}
    for count, step in enumerate(iced_x86.Decoder(64, code)):
        if step.op1_kind != iced_x86.OpKind.REGISTER:
            continue
        if step.code in _moves():
            moved[step.op0_register] = count
        elif step.code in _copies() and count - moved.get(step.op1_register, -DISTANCE - 1) <= DISTANCE:
            by_number = step.op2_kind == iced_x86.OpKind.IMMEDIATE8
            if step.op_count == 2 or (
                not step.immediate8 if by_number else step.op2_register == step.op1_register
            ):
                return {TWO_STEPS: Use(step.ip, code[step.ip : step.ip + step.len])}
    return {}


@cache
def _moves() -> frozenset[int]:
    return frozenset((iced_x86.Code.VEX_VMOVD_XMM_RM32, iced_x86.Code.VEX_VMOVQ_XMM_RM64))


@cache
def _copies() -> frozenset[int]:
    """Instructions that copy the first part of a vector to the others."""
    return frozenset(
        code
        for name, code in vars(iced_x86.Code).items()
        if name.startswith(("VEX_VPBROADCAST", "VEX_VPUNPCKLQDQ_XMM", "VEX_VPSHUFD_XMM"))
    )


def text_of(code: bytes) -> str:
    """An instruction as an assembler writes it."""
    return str(iced_x86.Formatter(iced_x86.FormatterSyntax.INTEL).format(iced_x86.Decoder(64, code).decode()))


def asks(code: bytes, address: int, places: Container[int]) -> bool:
    """Whether a function queries the CPU's features, or reads one of the variables that hold them."""
    decoder = iced_x86.Decoder(64, code, ip=address)
    return any(
        instruction.code in (iced_x86.Code.CPUID, iced_x86.Code.XGETBV)
        or (instruction.is_ip_rel_memory_operand and instruction.ip_rel_memory_address in places)
        for instruction in decoder
    )


@cache
def needs(kind: int) -> tuple[str, ...]:
    """The features of one of iced's instruction codes, the most specific last."""
    instruction = iced_x86.Instruction()
    instruction.code = kind  # type: ignore[assignment,unused-ignore]
    info = instruction.op_code()
    features = [_names()[number] for number in instruction.cpuid_features() if number in _names()]
    encodings = iced_x86.EncodingKind
    if info.encoding == encodings.LEGACY:
        return _legacy(info, features)
    if info.encoding == encodings.VEX and not {"bmi1", "bmi2"}.intersection(features):
        features.insert(0, "avx")
    if info.encoding == encodings.EVEX:
        features[:0] = ["avx", "avx512f"]
    return tuple(dict.fromkeys(features))


def _legacy(info: Any, features: list[str]) -> tuple[str, ...]:
    """Without VEX: tzcnt runs as bsf on older CPUs, and SSE shows a compiler without the flag for AVX."""
    features = [name for name in features if name != "bmi1"]
    if features:
        return tuple(features)
    plain = info.table == iced_x86.OpCodeTableKind.T0F and info.op_code_len == 1
    return (LEGACY_SSE,) if plain and info.op_code in _baseline() else ()


@cache
def _baseline() -> frozenset[int]:
    """The opcodes of the oldest CPU, which the data has as `10-17 c2`."""
    ranges = (part.partition("-") for part in x86_facts().baseline.split())
    return frozenset(
        opcode for first, _, last in ranges for opcode in range(int(first, 16), int(last or first, 16) + 1)
    )


@cache
def _names() -> dict[int, str]:
    """Our name of each of iced's features; an older iced has fewer."""
    known = x86_facts().iced
    return {
        getattr(iced_x86.CpuidFeature, name): ours
        for name, ours in known.items()
        if hasattr(iced_x86.CpuidFeature, name)
    }
