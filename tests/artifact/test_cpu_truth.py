"""Instruction boundaries and features are those of GNU's assembler, compiler and disassembler."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.artifact import toolkit
from tests.artifact.toolkit import checked
from torchsmith.artifact import x86
from torchsmith.artifact.cpu import CpuCode, cpu_code
from torchsmith.artifact.elf import Machine, code_of, functions_of, read_elf
from torchsmith.artifact.features import LEGACY_SSE, closure, uses
from torchsmith.artifact.source import open_file
from torchsmith.catalog import builtin_catalog

TRIPLES: dict[Machine, str] = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
CATALOG = builtin_catalog()

INSTRUCTIONS: dict[Machine, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("instructions.toml").read_text()
)  # type: ignore[assignment]


def assemble(machine: Machine, lines: list[str], folder: Path) -> bytes:
    """The bytes of instructions, from GNU's assembler."""
    source, made, raw = folder / "a.s", folder / "a.o", folder / "a.bin"
    source.write_text("\n".join(lines) + "\n")
    options = ["-march=armv9-a+bf16+i8mm+fp16fml+sve2"] if machine == "aarch64" else []
    checked(f"{TRIPLES[machine]}-as", *options, source, "-o", made)
    checked(f"{TRIPLES[machine]}-objcopy", "-O", "binary", "-j", ".text", made, raw)
    return raw.read_bytes()


def told(machine: Machine, line: str, folder: Path) -> str:
    """The telling feature of one instruction."""
    found = [use.features[-1] for use in uses(machine, assemble(machine, [line], folder))]
    return found[0] if found and found[0] != LEGACY_SSE else "baseline"


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize(
    ("machine", "feature"), [(machine, feature) for machine, rows in INSTRUCTIONS.items() for feature in rows]
)
def test_an_instruction_needs_the_feature_it_belongs_to(
    machine: Machine, feature: str, tmp_path: Path
) -> None:
    lines = INSTRUCTIONS[machine][feature].split("\n")[:-1]
    assert {line: told(machine, line, tmp_path) for line in lines} == dict.fromkeys(lines, feature)


SOURCE = """
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#define AT(name) __asm__("_ZN2at6native" name "Ev")
void scale(float* out, const float* in, float by, size_t n) AT("5scale");
double total(const double* in, size_t n) AT("5total");
void mask(int32_t* out, const int32_t* in, size_t n) AT("4mask");
float mean(float a, float b) AT("4mean");
void bump(atomic_long* count) AT("4bump");
uint64_t mix(uint64_t a, uint64_t b) AT("3mix");
void widen(double* out, const float* in, size_t n) AT("5widen");
void bytes(uint8_t* out, const uint8_t* in, size_t n) AT("5bytes");
void scale(float* out, const float* in, float by, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = in[i] * by + 1; }
double total(const double* in, size_t n) { double sum = 0; for (size_t i = 0; i < n; ++i) sum += in[i]; return sum; }
void mask(int32_t* out, const int32_t* in, size_t n) { for (size_t i = 0; i < n; ++i) if (in[i] > 3) out[i] = in[i] * 7; }
float mean(float a, float b) { return (a + b) * 0.5f; }
void bump(atomic_long* count) { atomic_fetch_add(count, 1); }
uint64_t mix(uint64_t a, uint64_t b) { return (a & ~b) ^ (a << (b & 63)); }
void widen(double* out, const float* in, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = in[i]; }
void bytes(uint8_t* out, const uint8_t* in, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = in[i] ^ (out[i] >> 1); }
"""  # noqa: E501


def compiled(isa_name: str, flags: tuple[str, ...], folder: Path) -> CpuCode:
    """What is seen in a library that gcc compiled with flags."""
    machine: Machine = "x86_64" if CATALOG.isas[isa_name].platform.startswith("x86") else "aarch64"
    source, made = folder / "kernel.c", folder / "libtorch_cpu.so"
    source.write_text(SOURCE)
    checked(f"{TRIPLES[machine]}-gcc", "-O3", "-shared", "-fPIC", "-nostdlib", *flags, source, "-o", made)
    with open_file(made) as opened:
        return cpu_code(read_elf(opened), made.name, full=True)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("isa_name", CATALOG.isas)
def test_code_compiled_for_an_instruction_set_shows_it_and_stays_within_it(
    isa_name: str, tmp_path: Path
) -> None:
    isa = CATALOG.isas[isa_name]
    seen = compiled(isa_name, isa.flags, tmp_path)
    assert seen.undispatched.undecoded == 0
    assert seen.undispatched.features
    assert seen.undispatched.features <= closure(seen.machine, isa.features)
    assert LEGACY_SSE not in seen.undispatched.having


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("isa_name", ["avx2", "armv8_2"])
def test_code_compiled_without_flags_runs_on_any_cpu(isa_name: str, tmp_path: Path) -> None:
    seen = compiled(isa_name, (), tmp_path)
    assert seen.undispatched.features == frozenset()
    assert seen.undispatched.functions >= 8


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("flags", [(), ("-mavx2", "-mfma"), ("-march=sapphirerapids",)])
def test_instructions_end_where_objdump_says(flags: tuple[str, ...], tmp_path: Path) -> None:
    compiled("avx2", flags, tmp_path)
    listing = checked("x86_64-linux-gnu-objdump", "-d", "-w", tmp_path / "libtorch_cpu.so")
    sizes = toolkit.disassembled(listing)
    checked_ones = 0
    with open_file(tmp_path / "libtorch_cpu.so") as source:
        elf = read_elf(source)
        for function in functions_of(elf).rows:
            for at, size, _ in x86.telling(code_of(elf, function, 1 << 20)):
                assert sizes[function.address + at] == size
                checked_ones += 1
    assert checked_ones > 50
