"""Recorded command lines mean what gcc says of their options, and decide whether the flags arrived."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.artifact.test_verdict import AVX2, CATALOG, NAME, check, complete, functions, judged, site
from tests.artifact.toolkit import checked
from torchsmith.artifact.recorded import allowed, target_options
from torchsmith.artifact.report import Report, verify
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.core.process import run
from torchsmith.matrix import Variant

SETS = {name: isa.flags for name, isa in CATALOG.isas.items() if isa.platform.endswith("-linux")}
X86 = [flags for name, flags in SETS.items() if name.startswith("avx")]
ARM = [flags for name, flags in SETS.items() if name.startswith("arm")]
# As XNNPACK, SLEEF, FBGEMM, oneDNN and PyTorch's own kernels write them after the flags of a set.
X86_OVERRIDES = (
    "-msse2 -mno-sse3",
    "-mssse3 -mno-sse4.1",
    "-msse4.1 -mno-sse4.2",
    "-msse4.1 -mno-sse4.2 -mno-avx -mno-avx2",
    "-mavx -mno-avx2 -mno-fma",
    "-mf16c -mno-fma -mno-avx2",
    "-mf16c -mfma -mno-avx2",
    "-mavx2 -mfma -mf16c",
    "-mf16c -mfma -mavx2 -mavxvnni",
    "-mavx512f -mf16c",
    "-mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl -mf16c",
    "-mavx512f -mavx512bw -mavx512vbmi -mavx512vnni -mgfni",
    "-mavx512f -mavx512fp16 -mavx512bf16",
    "-mavx512f -mamx-tile -mamx-int8",
    "-march=x86-64-v2",
    "-march=x86-64-v3 -mno-avx2",
    "-march=x86-64-v4",
    "-msse4 -mno-sse4",
    "-mavx2 -mno-popcnt",
)
ARM_OVERRIDES = (
    "armv8-a",
    "armv8-a+sve",
    "armv8-a+sve+bf16",
    "armv8.2-a+sve2",
    "armv8.2-a+bf16",
    "armv8.2-a+fp16",
    "armv8.2-a+fp16+dotprod",
    "armv8.2-a+dotprod",
    "armv8.2-a+i8mm+fp16",
    "armv8.2-a+i8mm+bf16+fp16+dotprod",
    "armv8.2-a+fp16fml",
    "armv8.3-a",
    "armv9-a",
    "armv9-a+nosve2",
    "armv9-a+nosve",
    "armv9-a+sve2-aes+bf16",
)
MACROS = {
    "crc": "CRC32",
    "lse": "ATOMICS",
    "rdma": "QRDMX",
    "dotprod": "DOTPROD",
    "fp16": "FP16_SCALAR_ARITHMETIC",
    "fp16fml": "FP16_FML",
    "fcma": "COMPLEX",
    "jscvt": "JCVT",
    "frintts": "FRINT",
    "aes": "AES",
    "bf16": "BF16_VECTOR_ARITHMETIC",
    "i8mm": "MATMUL_INT8",
    "sve": "SVE",
    "sve2": "SVE2",
    "f32mm": "SVE_MATMUL_FP32",
    "f64mm": "SVE_MATMUL_FP64",
    "sve2-aes": "SVE2_AES",
    "sve2-bitperm": "SVE2_BITPERM",
}


def enabled_by_gcc(options: Sequence[str]) -> set[str]:
    """What `gcc -Q --help=target` has as enabled, of what the data has."""
    rows = checked("x86_64-linux-gnu-gcc", *options, "-Q", "--help=target")
    return set(re.findall(r"^\s+-m(\S+)\s+\[enabled\]", rows, re.MULTILINE)) & listed_by_gcc()


def listed_by_gcc() -> set[str]:
    rows = checked("x86_64-linux-gnu-gcc", "-Q", "--help=target")
    return set(re.findall(r"^\s+-m(\S+)\s+\[", rows, re.MULTILINE)) & target_options("x86_64").implied.keys()


def mixtures(count: int) -> list[str]:
    """Options in any order, an architecture among them or not; always the same ones."""
    chance = random.Random(41)
    names = sorted(listed_by_gcc())
    options = [f"-m{name}" for name in names] + [f"-mno-{name}" for name in names]
    archs = ["", "-march=x86-64-v3", "-march=x86-64-v4"]
    return [
        " ".join([*chance.choices(options, k=chance.randint(2, 6)), chance.choice(archs)])
        for _ in range(count)
    ]


@pytest.mark.needs("cross-gcc")
def test_options_of_x86_mean_what_gcc_says() -> None:
    listed = listed_by_gcc()
    single = [f"-m{name}" for name in sorted(listed)] + [f"-mno-{name}" for name in sorted(listed)]
    lines = list(X86)
    lines += [(*flags, *words.split()) for flags in ((), *X86) for words in X86_OVERRIDES]
    lines += [tuple(words.split()) for words in (*single, *mixtures(60))]
    wrong = {
        line: ours ^ gcc
        for line in lines
        if (ours := (allowed("x86_64", line) or frozenset()) & listed) != (gcc := enabled_by_gcc(line))
    }
    assert not wrong


@pytest.mark.needs("cross-gcc")
def test_architectures_of_arm_mean_what_gcc_says() -> None:
    archs = [flag for flags in ARM for flag in flags] + [f"-march={arch}" for arch in ARM_OVERRIDES]
    for arch in archs:
        words = ["aarch64-linux-gnu-gcc", arch, "-dM", "-E", "-x", "c", "/dev/null"]
        macros = set(re.findall(r"__ARM_FEATURE_(\w+) 1", checked(*words)))
        defined = frozenset(name for name, macro in MACROS.items() if macro in macros)
        assert allowed("aarch64", [arch]) == defined, arch


@pytest.mark.parametrize("line", ["-march=znver9", "-march=native", "-mcpu=cortex-x99"])
def test_a_cpu_that_the_data_lacks_is_unknown(line: str) -> None:
    assert allowed("x86_64", line.split()) is None
    assert allowed("aarch64", ["-march=armv8.2-a+quantum"]) is None


def test_the_architecture_comes_first_wherever_it_is_written() -> None:
    assert allowed("x86_64", ["-mno-avx2", "-march=x86-64-v3"]) == allowed(
        "x86_64", ["-march=x86-64-v3", "-mno-avx2"]
    )


def lines_of(isa: str, mark: str = CXX_MARK) -> str:
    return f"{mark} {' '.join(SETS[isa])} -O2"


def torch_with(tmp_path: Path, *lines: str, name: str = NAME) -> Report:
    library = elves.code_library(functions(AVX2, 5), recorded=lines)
    files = dict.fromkeys(("torch/lib/libtorch_cpu.so", "torch/_C.cpython-313-x86_64-linux-gnu.so"), library)
    return judged(complete(tmp_path, dict(files)), name)


LESS = f"{CXX_MARK} {' '.join(SETS['avx2'])} -mavx -mno-avx2 -mno-fma"
MORE = f"{CXX_MARK} {' '.join(SETS['avx2'])} -mavx512f"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([lines_of("avx2")], "right"),
        ([f"-frandom-seed=abc {lines_of('avx2')}", f"-frandom-seed=def {lines_of('avx2')}"], "right"),
        ([lines_of("avx2"), LESS, MORE], "right"),  # units' own overrides
        ([lines_of("avx2"), f"{HOST_MARK} -O2"], "right"),  # host halves of torch
        ([lines_of("avx2"), f"{HOST_MARK} {lines_of('avx2')}"], "right"),
        ([lines_of("avx2"), "-O2"], "wrong"),  # a unit that the flags did not reach
        ([lines_of("avx2"), f"{' '.join(SETS['avx2'])} -O2"], "wrong"),  # reached in another way
        ([LESS, MORE], "wrong"),
        ([f"{CXX_MARK} -O2"], "wrong"),
        ([f"{HOST_MARK} {' '.join(SETS['avx2'])}"], "wrong"),
        ([f"{lines_of('avx2')} -march=x86-64-v4"], "wrong"),
        ([f"{CXX_MARK} -march=x86-64 {' '.join(SETS['avx2'])}"], "right"),
    ],
)
def test_recorded_lines_decide_whether_the_flags_arrived(
    lines: list[str], status: str, tmp_path: Path
) -> None:
    assert check(torch_with(tmp_path, *lines), "flags").status == status


def test_an_override_that_comes_to_another_set_is_not_that_set(tmp_path: Path) -> None:
    """As XNNPACK compiles its units for AVX in a build for AVX2."""
    override = f"{lines_of('avx2')} -mavx -mno-avx2 -mno-fma -mno-f16c"
    assert allowed("x86_64", override.split()) == allowed("x86_64", SETS["avx"])
    report = torch_with(tmp_path, lines_of("avx2"), override, name="pytorch-python313-cpu-avx")
    assert check(report, "flags").status == "wrong"


def test_the_line_says_what_was_counted(tmp_path: Path) -> None:
    seeds = [f"-frandom-seed={seed} {lines_of('avx2')}" for seed in "ab"]
    report = torch_with(tmp_path, *seeds, LESS, MORE, f"{HOST_MARK} -O2")
    text = "AVX2 in 1 of 4 recorded command lines; 2 units' own overrides; 1 CUDA host line"
    assert check(report, "flags").text == text
    assert "MAGMA" in check(report, "flags").hint
    assert [row.mark for row in report.recorded] == ["cxx", "cxx", "cxx", "host"]
    assert all(len(row.libraries) >= 1 and "-frandom-seed" not in row.line for row in report.recorded)


@pytest.mark.parametrize("name", ["avx512", "avx512vnni", "avx512bf16", "avx"])
def test_sets_that_instructions_do_not_tell_apart_are_told_by_their_flags(name: str, tmp_path: Path) -> None:
    report = torch_with(tmp_path, lines_of("avx512"), name=f"pytorch-python313-cpu-{name}")
    assert check(report, "flags").status == ("right" if name == "avx512" else "wrong")


def test_an_unreached_unit_is_printed(tmp_path: Path) -> None:
    assert "`GNU C++17 12.2.0 -O3 -fPIC`" in check(torch_with(tmp_path, "-O3 -fPIC"), "flags").text


def test_a_build_without_a_record_is_not_verified_and_publish_can_tell_why(tmp_path: Path) -> None:
    plain = elves.code_library(functions(AVX2, 5))
    path = complete(
        tmp_path,
        {"torch/lib/libtorch_cpu.so": plain, "torch/_C.cpython-313-x86_64-linux-gnu.so": plain},
    )
    derivation = tmp_path / "abc-pytorch.drv"
    derivation.write_text('("preConfigure","export CXXFLAGS=\\"-mavx2 -mfma ${CXXFLAGS:-}\\"\\n")')
    report = verify(path, Variant.parse(NAME, CATALOG), CATALOG, derivation=str(derivation))
    flags = check(report, "flags")
    assert (flags.status, report.ok, report.verified, report.unrecorded_only) == (
        "unjudged",
        True,
        False,
        True,
    )
    assert "does not record" in flags.text
    assert "avx" in flags.text
    assert "-mavx2 -mfma" in flags.hint
    assert report.recorded == ()
    (path / "lib/python3.13/site-packages/torch/version.py").write_text("__version__ = '1.13.0'\n")
    assert not judged(path, NAME).unrecorded_only


def test_a_library_without_a_record_beside_others_is_not_judged(tmp_path: Path) -> None:
    path = complete(tmp_path, {"torch/lib/libc10.so": elves.code_library(functions(AVX2, 3, "_ZN3c101f"))})
    report = judged(path, NAME)
    assert [one.status for one in report.checks if one.id == "flags"] == ["right", "unjudged"]
    assert (report.verified, report.unrecorded_only) == (False, False)


def test_a_library_of_another_build_is_not_taken_for_an_override(tmp_path: Path) -> None:
    other = elves.code_library(functions(b"\xc3" * 16, 3, "_ZN3c101f"), recorded=[lines_of("avx")])
    report = judged(complete(tmp_path, {"torch/lib/libc10.so": other}), NAME)
    assert not report.verified
    assert "libc10.so" in [one for one in report.checks if one.id == "flags"][1].text


@pytest.mark.parametrize(("package", "status"), [("torchvision", "wrong"), ("pytorch", "right")])
def test_host_halves_of_a_companion_get_the_flags_too(package: str, status: str, tmp_path: Path) -> None:
    lines = [lines_of("avx2"), f"{HOST_MARK} -O2"]
    gpu = elves.container(elves.entry(90))
    library = elves.code_library(functions(AVX2, 5, "_ZN6vision1f"), recorded=lines, gpu=gpu)
    folder = "torch/lib/libtorch_cuda.so" if package == "pytorch" else "torchvision/_C.so"
    path = site(tmp_path, {folder: library, "torchvision/version.py": "__version__ = '0.25.0'\n"})
    assert check(judged(path, f"{package}-python313-cuda13_0-sm90-avx2"), "flags").status == status


def test_what_clang_compiles_is_not_judged_by_a_record_and_may_be_verified(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch/version.py": "__version__ = '2.10.0'\nhip = '6.4.3'\n",
        "torch/lib/libtorch_cpu.so": elves.code_library(functions(AVX2, 5)),
        "torch/lib/libtorch_hip.so": elves.hip_library(elves.bundle("gfx942")),
        "torch/_C.so": elves.code_library(functions(AVX2, 5)),
    }
    report = judged(site(tmp_path, files), "pytorch-python313-rocm6_4-gfx942-avx2")
    flags = check(report, "flags")
    assert (flags.status, flags.blocking) == ("unjudged", False)
    blocking = [one for one in report.checks if one.status == "unjudged" and one.blocking]
    assert (blocking, report.verified) == ([], report.ok)


@pytest.mark.needs("cross-gcc")
def test_gcc_keeps_the_record_through_linking_and_stripping(tmp_path: Path) -> None:
    source = tmp_path / "a.cpp"
    source.write_text("namespace at { int f(int x) { return x + 1; } }\n")
    flags = f"-O2 -fPIC -shared -frecord-gcc-switches {lines_of('avx2')} -frandom-seed=1 -Dxyz -I/nix/store/x"
    for options in ("", "-s", "-Wl,--gc-sections"):
        made = tmp_path / f"lib{len(options)}.so"
        checked("x86_64-linux-gnu-g++", *flags.split(), *options.split(), source, "-o", made)
        (row,) = verify(made, None, CATALOG).recorded
        assert row.mark == "cxx"
        assert not re.search("frandom-seed|/nix/store|-Dxyz", row.line)
    assert run(["x86_64-linux-gnu-strip", "-S", tmp_path / "lib0.so"]).ok
    assert verify(tmp_path / "lib0.so", None, CATALOG).recorded
