"""Recorded command lines decide whether the flags arrived."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.artifact.test_verdict import AVX2, CATALOG, NAME, check, complete, functions, judged, site
from tests.artifact.toolkit import checked
from torchsmith.artifact.cpu_promise import flags_check
from torchsmith.artifact.recorded import RecordedLine
from torchsmith.artifact.report import Report, verify
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.core.process import run
from torchsmith.matrix import Variant

SETS = {name: isa.flags for name, isa in CATALOG.isas.items() if isa.platform.endswith("-linux")}


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
        ([f"{CXX_MARK} -mtune=generic -mcmodel=large {' '.join(SETS['avx2'])}"], "right"),
        ([f"{lines_of('avx2')} -march=znver9"], "wrong"),
        ([f"{lines_of('avx2')} -mavx10.9"], "wrong"),  # whatever it is
    ],
)
def test_recorded_lines_decide_whether_the_flags_arrived(
    lines: list[str], status: str, tmp_path: Path
) -> None:
    assert check(torch_with(tmp_path, *lines), "flags").status == status


def test_an_override_that_comes_to_another_set_is_not_that_set(tmp_path: Path) -> None:
    """As XNNPACK compiles its units for AVX in a build for AVX2."""
    override = f"{lines_of('avx2')} -mavx -mno-avx2 -mno-fma -mno-f16c"
    report = torch_with(tmp_path, lines_of("avx2"), override, name="pytorch-python313-cpu-avx")
    assert check(report, "flags").status == "wrong"


def test_the_line_says_what_was_counted(tmp_path: Path) -> None:
    seeds = [f"-frandom-seed={seed} {lines_of('avx2')}" for seed in "ab"]
    report = torch_with(tmp_path, *seeds, LESS, MORE, f"{HOST_MARK} -O2")
    text = "AVX2 in 1 of 4 recorded command lines; 2 units' own overrides; 1 CUDA host line"
    assert check(report, "flags").text == text
    assert "MAGMA" in check(report, "flags").hint
    assert (
        "; 1 unit's own override;"
        in check(torch_with(tmp_path / "one", *seeds, LESS, f"{HOST_MARK} -O2"), "flags").text
    )
    assert [row.mark for row in report.recorded] == ["cxx", "cxx", "cxx", "host"]
    assert all(len(row.libraries) >= 1 and "-frandom-seed" not in row.line for row in report.recorded)


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_its_own_flags_and_no_other_set(name: str) -> None:
    for flags in (CATALOG.isas[name].flags, *CATALOG.isas[name].other_flags):
        line = RecordedLine(f"GNU C++17 {CXX_MARK} {' '.join(flags)} -mtune=generic -O2")
        same = [isa for isa in SETS if flags_check([line], CATALOG.isas[isa], torch=True).status == "right"]
        assert same == [name]


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
    report = verify(path, Variant.parse(NAME, CATALOG), CATALOG)
    flags = check(report, "flags")
    assert (flags.status, report.ok, report.verified, report.unrecorded_only) == (
        "unjudged",
        True,
        False,
        True,
    )
    assert "does not record" in flags.text
    assert "avx" in flags.text
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
