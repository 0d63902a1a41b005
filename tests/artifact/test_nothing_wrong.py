"""Builds that are wrong in one way each: none is accepted, and the right one that they differ from is."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.artifact.test_verdict import (
    AVX2,
    AVX512,
    CATALOG,
    NAME,
    NOP_ARM,
    SVE,
    complete,
    functions,
    judged,
    site,
)
from torchsmith.artifact import contents
from torchsmith.artifact.elf import HEADER, SECTION
from torchsmith.artifact.report import verify
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.core.problem import TooLarge
from torchsmith.matrix import Variant

PACKAGES = "lib/python3.13/site-packages"
CUDA = "pytorch-python313-cuda13_0-sm90-avx2"
ARM = "pytorch-python313-cpu-armv8_2"
CPU_VERSION = "__version__ = '2.10.0'\n"
CUDA_VERSION = "__version__ = '2.10.0'\ncuda: Optional[str] = '13.0'\n"
Build = Callable[[Path], tuple[Path, str]]


def line(isa: str, *more: str) -> str:
    return " ".join([CXX_MARK, *CATALOG.isas[isa].flags, "-O2", *more])


def code(isa: str, *more: str, prefix: str = "_ZN2at6native1f") -> bytes:
    """A library for a set, with further recorded lines."""
    arm = isa.startswith("arm")
    body = functions(NOP_ARM if arm else AVX2, 5, prefix)
    machine = elves.AARCH64 if arm else elves.X86_64
    return elves.code_library(body, machine=machine, recorded=[line(isa), *more])


def gpu(*archs: int, payload: int = 64) -> bytes:
    entries = [elves.entry(arch, payload=payload) for arch in archs]
    body = functions(AVX2, 5)
    lines = [line("avx2"), f"{HOST_MARK} -O2"]
    return elves.code_library(body, recorded=lines, gpu=elves.container(*entries))


def cpu_torch(folder: Path, **files: bytes | str) -> Path:
    """A right torch for avx2 with changes: `__` stands for a slash."""
    return complete(folder, {name.replace("__", "/"): data for name, data in files.items()})


def cuda_torch(folder: Path, files: dict[str, bytes | str] | None = None) -> Path:
    """A right torch for sm90 and avx2 with changes."""
    parts: dict[str, bytes | str] = {
        "torch/version.py": CUDA_VERSION,
        "torch/lib/libtorch_cuda.so": gpu(90),
    }
    return complete(folder, parts | (files or {}))


def arm_torch(folder: Path, files: dict[str, bytes | str] | None = None, isa: str = "armv8_2") -> Path:
    """A right torch for an ARM set with changes."""
    library = code(isa)
    parts: dict[str, bytes | str] = {
        "torch/version.py": CPU_VERSION,
        "torch/lib/libtorch_cpu.so": library,
        "torch/_C.cpython-313-aarch64-linux-gnu.so": library,
    }
    return site(folder, parts | (files or {}))


def sve_library(name: str = "hidden", lines: tuple[str, ...] = ()) -> bytes:
    body = {name: SVE * 4}
    return elves.code_library(body, machine=elves.AARCH64, recorded=lines or [line("armv8_2")])


def _with_link(path: Path, name: str, target: str) -> Path:
    (path / PACKAGES / name).symlink_to(target)
    return path


def _placed(path: Path, name: str, data: bytes) -> Path:
    (path / name).write_bytes(data)
    return path


def _mixed_arm() -> bytes:
    body = functions(NOP_ARM, 80) | functions(SVE, 5, "_ZN2at6native1g")
    lines = [line("armv8_2"), line("armv8_2", "-march=armv8-a+sve")]
    return elves.code_library(body, machine=elves.AARCH64, recorded=lines)


def _half_avx2() -> bytes:
    body = functions(AVX512, 20) | functions(AVX2, 20, "_ZN2at6native1g")
    return elves.code_library(body)


def _section_field(data: bytes, name: bytes, field: int, value: int) -> bytes:
    """A library with one number of a section's header changed."""
    head = HEADER.unpack_from(data)
    rows = list(SECTION.iter_unpack(data[head[6] : head[6] + head[12] * SECTION.size]))
    names = data[rows[head[13]][4] :]
    index = next(at for at, row in enumerate(rows) if names[row[0] :].startswith(name + b"\0"))
    row = list(rows[index])
    row[field] = value
    at = head[6] + index * SECTION.size
    return data[:at] + SECTION.pack(*row) + data[at + SECTION.size :]


def _without_x(data: bytes) -> bytes:
    return _section_field(data, b".text", 2, 2)


def _nameless(data: bytes) -> bytes:
    """Without its symbol table, as strip leaves it."""
    return _section_field(data, b".symtab", 1, 1)


def _needing(name: str) -> bytes:
    """A library for armv8.2 that needs another."""
    strings = b"\0" + name.encode() + b"\0"
    parts = [
        elves.Part(".dynamic", struct.pack("<qQqQ", 1, 1, 0, 0), kind=6, link=2),
        elves.Part(".dynstr", strings, kind=3),
        elves.record(line("armv8_2")),
    ]
    return elves.Library(parts, elves.AARCH64).build()


OVERRIDE = line("avx2", "-mno-avx2")
RIGHT: dict[str, Build] = {
    "cpu": lambda folder: (cpu_torch(folder), NAME),
    "stated release": lambda folder: (cpu_torch(folder), NAME.replace("pytorch-", "pytorch210-")),
    "cuda": lambda folder: (cuda_torch(folder), CUDA),
    "arm": lambda folder: (arm_torch(folder), ARM),
    "armv9": lambda folder: (arm_torch(folder, isa="armv9"), ARM.replace("armv8_2", "armv9")),
    "host halves without flags": lambda folder: (
        cuda_torch(folder, {"torch/lib/libtorch_cuda_linalg.so": gpu(90)}),
        CUDA,
    ),
    "overrides": lambda folder: (
        cpu_torch(
            folder, **{"torch__lib__libc10.so": code("avx2", line("avx2", "-mno-avx2"), prefix="_ZN3c101f")}
        ),
        NAME,
    ),
    "a cubin of its target in a file": lambda folder: (
        cuda_torch(folder, {"torch/kernels/a.fatbin": elves.container(elves.entry(90))}),
        CUDA,
    ),
    "libgomp beside it": lambda folder: (
        cpu_torch(folder, **{"torch__lib__libgomp.so.1": elves.code_library({"omp": AVX512})}),
        NAME,
    ),
    "a program beside it": lambda folder: (
        cpu_torch(folder, torch__bin__torch_shm_manager=Path("/bin/true").read_bytes()),
        NAME,
    ),
    "a static library beside it": lambda folder: (
        cpu_torch(folder, **{"torch__lib__libx.a": b"!<arch>\n"}),
        NAME,
    ),
}


def linked_file(folder: Path, hard: bool, data: bytes, name: str) -> Path:
    path = cpu_torch(folder)
    place = path / PACKAGES / "aaa" / "x.so"
    place.parent.mkdir()
    place.write_bytes(data)
    link = path / PACKAGES / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if hard:
        os.link(place, link)
    else:
        link.symlink_to(os.path.relpath(place, link.parent))
    return path


def linked_folder(folder: Path, data: bytes) -> Path:
    path = cpu_torch(folder)
    (path / PACKAGES / "aaa").mkdir()
    (path / PACKAGES / "aaa" / "x.so").write_bytes(data)
    (path / PACKAGES / "torch" / "ext").symlink_to("../aaa")
    return path


def without(path: Path, name: str) -> Path:
    (path / PACKAGES / name).unlink()
    return path


def cpu_wrong(**files: bytes | str) -> Build:
    return lambda folder: (cpu_torch(folder, **files), NAME)


def cuda_wrong(files: dict[str, bytes | str], name: str = CUDA) -> Build:
    return lambda folder: (cuda_torch(folder, files), name)


def arm_wrong(files: dict[str, bytes | str], isa: str = "armv8_2", name: str = ARM) -> Build:
    return lambda folder: (arm_torch(folder, files, isa), name)


def recorded_as(isa: str, *lines: str) -> Build:
    """All libraries record these lines, under the name of a set."""
    arm = isa.startswith("arm")
    machine, word = (elves.AARCH64, NOP_ARM) if arm else (elves.X86_64, b"\x90")
    library = elves.code_library(functions(word, 5), machine=machine, recorded=lines)
    files: dict[str, bytes | str] = {
        "torch/version.py": CPU_VERSION,
        "torch/lib/libtorch_cpu.so": library,
        "torch/_C.so": library,
    }
    return lambda folder: (site(folder, files), f"pytorch-python313-cpu-{isa}")


def released(version: str, name: str) -> Build:
    return lambda folder: (cpu_torch(folder, **{"torch__version.py": f"__version__ = '{version}'\n"}), name)


BEYOND = elves.code_library({"_ZN2at6native4fastEv": AVX512}, recorded=[line("avx2")])
SETS = ("avx", "avx2", "avx512", "avx512vnni", "avx512bf16")
WRONG: dict[str, Build] = {
    # Links.
    "a symlink to code above the set": lambda f: (linked_file(f, False, BEYOND, "torch/x.so"), NAME),
    "a hard link to code above the set": lambda f: (linked_file(f, True, BEYOND, "torch/x.so"), NAME),
    "a symlink to code for a GPU": lambda f: (linked_file(f, False, gpu(90), "torch/x.so"), NAME),
    "a hard link to code for a GPU": lambda f: (linked_file(f, True, gpu(90), "torch/x.so"), NAME),
    "a linked library by its own name": lambda f: (linked_file(f, True, BEYOND, "x/libtorch_y.so"), NAME),
    "a linked folder": lambda f: (linked_folder(f, BEYOND), NAME),
    "a link upwards": lambda f: (_with_link(cpu_torch(f), "torch/up", "../../../.."), NAME),
    # Releases.
    "2.10.0 as pytorch212": released("2.10.0", NAME.replace("pytorch-", "pytorch212-")),
    "2.10.0 as pytorch29": released("2.10.0", NAME.replace("pytorch-", "pytorch29-")),
    "2.10.1 as pytorch210": released("2.10.1", NAME.replace("pytorch-", "pytorch210-")),
    "2.10.0 as an unknown line": released("2.10.0", NAME.replace("pytorch-", "pytorch77-")),
    "1.13 under the plain name": released("1.13.1", NAME),
    "3.0 under the plain name": released("3.0.0+cpu", NAME),
    "no release": lambda f: (without(cpu_torch(f), "torch/version.py"), NAME),
    # GPU code.
    "libtorch_cuda without GPU code": cuda_wrong(
        {"torch/lib/libtorch_cuda.so": code("avx2"), "torch/lib/libtorch_cuda_linalg.so": gpu(90)}
    ),
    "entries of 0 bytes": cuda_wrong({"torch/lib/libtorch_cuda.so": gpu(90, payload=0)}),
    "entries of 0 bytes in another library": cuda_wrong(
        {"torch/lib/libtorch_cuda_linalg.so": gpu(90, payload=0)}
    ),
    "another GPU's code in libfoo.so": cuda_wrong({"torch/lib/libfoo.so": gpu(80)}),
    "GPU code in libfoo.so of a cpu build": cpu_wrong(**{"torch__lib__libfoo.so": gpu(90)}),
    "GPU code in libfoo.so-1 of a cpu build": cpu_wrong(**{"torch__lib__libfoo.so-1": gpu(90)}),
    "a loose fatbin in a cpu build": cpu_wrong(
        **{"torch__kernels__a.fatbin": elves.container(elves.entry(90))}
    ),
    "a loose fatbin without an ending": cpu_wrong(torch__kernels__a=elves.container(elves.entry(90))),
    "a loose fatbin for another GPU": cuda_wrong(
        {"torch/kernels/a.fatbin": elves.container(elves.entry(80))}
    ),
    "AMD's code in a file of a cpu build": cpu_wrong(torch__kernels__a=elves.bundle("gfx942")),
    # Parts.
    "no torch/_C": lambda f: (
        without(
            cpu_torch(f, **{"functorch___C.cpython-313-x86_64-linux-gnu.so": code("avx2")}),
            "torch/_C.cpython-313-x86_64-linux-gnu.so",
        ),
        NAME,
    ),
    "no libtorch_cpu": lambda f: (without(cpu_torch(f), "torch/lib/libtorch_cpu.so"), NAME),
    "_C for another Python": lambda f: (
        without(
            cpu_torch(
                f,
                **{
                    "torch___C.cpython-312-x86_64-linux-gnu.so": code("avx2"),
                    "functorch___C.cpython-313-x86_64-linux-gnu.so": code("avx2"),
                },
            ),
            "torch/_C.cpython-313-x86_64-linux-gnu.so",
        ),
        NAME,
    ),
    "another module for another Python": cpu_wrong(
        **{"torch___D.cpython-312-x86_64-linux-gnu.so": code("avx2")}
    ),
    "a module for the free-threaded Python": cpu_wrong(
        **{"torch___D.cpython-313t-x86_64-linux-gnu.so": code("avx2")}
    ),
    # Flags.
    "80 of 85 functions for armv8.2 as armv9": lambda f: (
        arm_torch(f, {"torch/lib/libtorch_cpu.so": _mixed_arm()}, "armv8_2"),
        ARM.replace("armv8_2", "armv9"),
    ),
    "half AVX2 as avx512": lambda f: (
        cpu_torch(f, **{"torch__lib__libtorch_cpu.so": _half_avx2()}),
        NAME.replace("avx2", "avx512"),
    ),
    "the set's flags and then armv8-a": recorded_as("armv9", f"{CXX_MARK} -march=armv8-a -O2"),
    "armv8.2 as armv9": recorded_as("armv9", line("armv8_2")),
    "armv9 as armv8.2": recorded_as("armv8_2", line("armv9")),
    "armv9 with units of its own for armv8.2, as that": lambda f: (
        arm_torch(f, {"torch/lib/libtorch_cpu.so": code("armv9", line("armv8_2"))}, "armv9"),
        ARM,
    ),
    "SVE alone as armv9": recorded_as("armv9", f"{CXX_MARK} -march=armv8-a+sve -O2"),
    **{
        f"{built} as {name}": recorded_as(name, line(built))
        for built in SETS
        for name in SETS
        if built != name
    },
    **{f"no flags as {name}": recorded_as(name, "-O2") for name in SETS},
    **{f"the mark alone as {name}": recorded_as(name, f"{CXX_MARK} -O2") for name in SETS},
    "flags and then -mno-avx2": recorded_as("avx2", f"{CXX_MARK} -mfma -mf16c -mno-avx2"),
    "flags without the mark": recorded_as("avx2", " ".join(CATALOG.isas["avx2"].flags)),
    "one unit without a mark": recorded_as("avx2", line("avx2"), "-O3"),
    "a unit of another compiler": recorded_as("avx2", line("avx2"), "-march=native"),
    "host halves alone": recorded_as("avx2", f"{HOST_MARK} {line('avx2')}"),
    "an unknown CPU": recorded_as("avx2", f"{CXX_MARK} -march=znver9"),
    "no record": lambda f: (
        complete(
            f,
            {
                "torch/lib/libtorch_cpu.so": elves.code_library(functions(AVX2, 5)),
                "torch/_C.cpython-313-x86_64-linux-gnu.so": elves.code_library(functions(AVX2, 5)),
            },
        ),
        NAME,
    ),
    "a library without a record": cpu_wrong(
        **{"torch__lib__libc10.so": elves.code_library(functions(AVX2, 3, "_ZN3c101f"))}
    ),
    "a library of another build": cpu_wrong(**{"torch__lib__libc10.so": code("avx", prefix="_ZN3c101f")}),
    # Code that was not read.
    "SVE in a small library": arm_wrong({"torch/_D.so": sve_library()}),
    "SVE in a small library, own by name": arm_wrong({"torch/lib/libshm.so": sve_library()}),
    "SVE in a small library without names": arm_wrong({"torch/_D.so": _nameless(sve_library())}),
    "AVX-512 in a small library": cpu_wrong(
        **{"torch___D.so": elves.code_library({"x": AVX512}, recorded=[line("avx2")])}
    ),
    "a function in a section that is no code": arm_wrong(
        {"torch/_D.so": _without_x(sve_library("PyInit__D"))}
    ),
    "bytes that are no instruction": cpu_wrong(
        **{"torch___D.so": elves.code_library({"PyInit__D": b"\x06" * 9}, recorded=[line("avx2")])}
    ),
    "SVE in a library that is needed, of any name": arm_wrong(
        {"torch/_D.so": _needing("libcore.so-1"), "torch/lib/libcore.so-1": sve_library()}
    ),
    "SVE in a library that is needed, elsewhere": lambda f: (
        _placed(arm_torch(f, {"torch/_D.so": _needing("libcore.so-1")}), "lib/libcore.so-1", sve_library()),
        ARM,
    ),
    "SVE in a library that is needed, without an ending": lambda f: (
        _placed(arm_torch(f, {"torch/_D.so": _needing("core")}), "lib/core", sve_library()),
        ARM,
    ),
    "code above the set in libfoo.so": arm_wrong({"torch/lib/libfoo.so": sve_library()}),
    "code above the set in a file of any name": arm_wrong({"torch/plugin.bin": sve_library("PyInit_plugin")}),
    "code above the set of own functions": cpu_wrong(**{"torch__lib__libtorch_x.so": BEYOND}),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_build_is_verified(kind: str, tmp_path: Path) -> None:
    path, name = RIGHT[kind](tmp_path)
    report = judged(path, name)
    assert report.verified, [one for one in report.checks if one.status in ("wrong", "unjudged")]


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_build_is_not_verified(kind: str, tmp_path: Path) -> None:
    path, name = WRONG[kind](tmp_path)
    assert not judged(path, name).verified


def test_the_line_that_a_caller_knows_decides_about_a_plain_name(tmp_path: Path) -> None:
    path, variant = cpu_torch(tmp_path), Variant.parse(NAME, CATALOG)
    for name, right in (("2.10", True), ("2.9", False), ("flox", True)):
        assert verify(path, variant, CATALOG, line=CATALOG.lines[name]).verified == right


def test_the_release_that_a_path_states_decides_too(tmp_path: Path) -> None:
    for prefix, right in (("pytorch210", True), ("pytorch29", False)):
        path = cpu_torch(tmp_path / f"abc-{prefix}-python313-cpu-avx2-2.10.0")
        assert judged(path, NAME).verified == right


def test_more_files_than_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(20):
        (outside / f"{number}.txt").touch()
    path = cpu_torch(tmp_path / "build")
    (path / "share").symlink_to(outside)
    assert judged(path, NAME).verified
    monkeypatch.setattr(contents, "MOST_FILES", 20)
    with pytest.raises(TooLarge):
        judged(path, NAME)
