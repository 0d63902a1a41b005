"""A CUDA toolkit as CMake and nvcc expect it, of links to the folders of NVIDIA's wheels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.gpu_half.work import Work

DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")  # of the driver: linked to, so stand-ins are enough
# The wheel's MAGMA is inside libtorch_cuda_linalg.so; libtorch_cuda.so only prints this release.
MAGMA = """\
#pragma once
#define MAGMA_VERSION_MAJOR 2
#define MAGMA_VERSION_MINOR 6
#define MAGMA_VERSION_MICRO 1
"""


def lay_out(work: Work, site: Path, nvcc: Path | None = None) -> None:
    """Fill WORK/cuda with what is not there yet; the compiler is that of toolkit `nvcc`, if one is named."""
    headers, libraries = work.cuda / "include", work.cuda / "lib64"
    for folder in (headers, libraries / "stubs"):
        folder.mkdir(parents=True, exist_ok=True)
    toolkit = nvcc or next((site / "nvidia").glob("cu[0-9]*"))
    for name in ("bin", "nvvm"):
        if not (work.cuda / name).exists():  # copied: nvcc looks for its parts beside itself, behind any link
            shutil.copytree(toolkit / name, work.cuda / name)
    for part in (toolkit, *sorted((site / "nvidia").iterdir())):
        _link_all(part / "include", headers)
        _link_all(part / "lib", libraries)
    for library in list(libraries.glob("*.so.*")):
        _link(Path(library.name), libraries / f"{library.name.partition('.so.')[0]}.so")
    _link(Path("lib64"), work.cuda / "lib")
    (headers / "magma_v2.h").write_text(MAGMA)
    for name in DRIVER:
        stub = libraries / "stubs" / name.removesuffix(".1")
        if not stub.exists():
            command = ["c++", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", str(stub)]
            subprocess.run(command, check=True)


def _link_all(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(path.resolve(), place)


def _link(goal: Path, place: Path) -> None:
    if not place.exists():
        place.unlink(missing_ok=True)  # a link to nothing
        place.symlink_to(goal)
