"""What is read of AMD's GPU code is what clang compiled and LLVM's own tools list, entry by entry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.artifact.test_bundle import ROCM, torch
from tests.artifact.test_verdict import check, judged
from tests.artifact.toolkit import checked
from torchsmith.artifact.bundle import Machines, target_of
from torchsmith.artifact.container import Container
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of, containers_of_file
from torchsmith.artifact.source import open_file
from torchsmith.artifact.tables import read_table
from torchsmith.core.process import run

pytestmark = pytest.mark.needs("hip")

LLVM = Path("/usr/lib/llvm-19/bin")
KERNEL = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, struct ihipStream_t *);
extern "C" unsigned __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, struct ihipStream_t **);
__global__ void fill(int *out, int value) { out[__builtin_amdgcn_workitem_id_x()] = value; }
"""
TARGETS = ("gfx90a:xnack-", "gfx90a:xnack+", "gfx1030", "gfx1100", "gfx942:sramecc+:xnack-")
OTHERS = {"two plain": ("gfx90a", "gfx942"), "generic": ("gfx9-generic", "gfx10-3-generic", "gfx11-generic")}
COMPRESSIONS = {"plain": (), "compressed": ("--offload-compress",)}


def compiled(folder: Path, made: str, *options: str) -> Path:
    """The kernel compiled for AMD GPUs, as clang's driver does with a HIP file."""
    source = folder / "kernel.hip"
    source.write_text(KERNEL)
    argv: list[str | Path] = [
        LLVM / "clang",
        "-x",
        "hip",
        "-nogpulib",
        "-nogpuinc",
        "-fPIC",
        *options,
        source,
    ]
    checked(*argv, "-o", folder / made)
    return folder / made


def archs(targets: tuple[str, ...]) -> list[str]:
    newest = ["-mcode-object-version=6"] if any("generic" in target for target in targets) else []
    return [*(f"--offload-arch={target}" for target in targets), *newest]


def listed(containers: list[Container]) -> list[str]:
    return sorted(str(entry.target) for container in containers for entry in container.entries)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("targets", [TARGETS, *OTHERS.values()], ids=["modes", *OTHERS])
def test_a_bundle_is_read_as_clang_s_bundler_lists_it(
    targets: tuple[str, ...], compression: str, tmp_path: Path
) -> None:
    options = ("--offload-device-only", *COMPRESSIONS[compression], *archs(targets))
    path = compiled(tmp_path, "kernel.hipfb", *options)
    assert path.read_bytes().startswith(b"CCOB" if compression == "compressed" else b"__CLANG")
    with open_file(path) as source:
        found = listed(list(containers_of_file(source, path.name)))
    names = checked(LLVM / "clang-offload-bundler", "--list", "--type=o", f"--input={path}").split()
    objects = [name.partition("--")[2] for name in names if not name.startswith("host")]
    assert found == sorted(objects) == sorted(targets)


@pytest.mark.parametrize("target", [*TARGETS, *(target for targets in OTHERS.values() for target in targets)])
def test_a_code_object_in_a_file_of_its_own_is_read_as_readelf_does(target: str, tmp_path: Path) -> None:
    options = ("--offload-device-only", "--no-gpu-bundle-output", *archs((target,)))
    path = compiled(tmp_path, "kernel.hsaco", *options)
    flags = re.search(r"Flags: +(.*)", checked(LLVM / "llvm-readelf", "-h", path))
    assert flags
    with open_file(path) as source:
        assert listed(list(containers_of_file(source, path.name))) == [target]
    assert set(target.split(":")) <= {word.strip() for word in flags[1].split(",")}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_libraries_of_several_units_are_judged_by_their_names(compression: str, tmp_path: Path) -> None:
    targets = ("gfx90a", "gfx1030", "gfx1100")
    options = ("-c", *COMPRESSIONS[compression], *archs(targets))
    first = compiled(tmp_path, "first.o", *options)
    second = compiled(tmp_path, "second.o", *options, "-Dfill=other")
    library = tmp_path / "libtorch_hip.so"
    checked(LLVM / "ld.lld", "-shared", "--unresolved-symbols=ignore-all", first, second, "-o", library)
    with open_file(library) as source:
        containers = list(containers_of(read_elf(source)))
    assert [listed([container]) for container in containers] == [sorted(targets)] * 2
    path = torch(tmp_path / "build", library.read_bytes())
    for name, status in {
        "gfx90a": "right",
        "gfx1030": "right",
        "gfx1100": "right",
        "gfx942": "wrong",
    }.items():
        assert check(judged(path, ROCM.replace("gfx942", name)), "gpu").status == status, name


def test_the_numbers_of_targets_are_those_that_llc_writes(tmp_path: Path) -> None:
    listing = run([LLVM / "llc", "-mtriple=amdgcn", "-mcpu=help"], stdin="", timeout=60)
    known = set(re.findall(r"^  (gfx\S+) +-", listing.stdout + listing.stderr, re.MULTILINE))
    made, tried = tmp_path / "empty.o", 0
    for name in read_table("amdgpu.toml", Machines).machines.keys() & known:
        argv: list[str | Path] = [
            LLVM / "llc",
            "-mtriple=amdgcn-amd-amdhsa",
            f"-mcpu={name}",
            "-filetype=obj",
            "-o",
            made,
            "-",
        ]
        argv += ["--amdhsa-code-object-version=6"] if "generic" in name else []
        assert run(argv, stdin="", timeout=60).ok
        assert target_of(made.read_bytes()[:52])[0].arch == name
        tried += 1
    assert tried > 35
