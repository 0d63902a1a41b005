"""A sample of objects is held against the name: by the flags that they record, and by their GPU code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.artifact import elves
from torchsmith.artifact.objects import check_objects
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.matrix import Variant

CATALOG = builtin_catalog()
LINE = f"{CXX_MARK} {' '.join(CATALOG.isas['avx512'].flags)}"
CUDA = "pytorch-python313-cuda13_0-sm90-avx512"


def states(folder: Path, name: str = CUDA) -> dict[str, str]:
    variant = Variant.parse(name, CATALOG)
    return {check.id: check.status for check in check_objects(folder, variant, CATALOG)}


def objects(folder: Path, *lines: str, sm: int = 90) -> Path:
    (folder / "a.cpp.o").write_bytes(elves.Library([elves.record(*lines)] if lines else []).build())
    gpu = elves.Part(".nv_fatbin", elves.container(elves.entry(sm)))
    (folder / "k.cu.o").write_bytes(elves.Library([gpu, elves.record(f"{HOST_MARK} -O2")]).build())
    return folder


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([LINE], "right"),
        ([LINE, f"{LINE} -mno-avx512f"], "right"),
        ([LINE, "-O2"], "wrong"),
        ([f"{CXX_MARK} -mavx2"], "wrong"),
        ([], "wrong"),
    ],
)
def test_recorded_flags_are_held_against_the_name(lines: list[str], status: str, tmp_path: Path) -> None:
    assert states(objects(tmp_path, *lines)) == {"flags": status, "gpu": "right"}


def test_gpu_code_is_held_against_the_name(tmp_path: Path) -> None:
    assert states(objects(tmp_path, LINE, sm=80)) == {"flags": "right", "gpu": "wrong"}
    (tmp_path / "k.cu.o").write_bytes(b"\x7fELF")
    assert states(tmp_path) == {"objects": "wrong", "flags": "right", "gpu": "unjudged"}


@pytest.mark.parametrize(
    ("targets", "status"),
    [(["gfx942"], "right"), (["gfx942", "gfx1100"], "wrong"), (["gfx1100"], "wrong"), ([], "unjudged")],
)
def test_objects_for_amd_gpus_are_held_against_the_name_without_such_a_gpu(
    targets: list[str], status: str, tmp_path: Path
) -> None:
    data = elves.hip_library(elves.compressed(elves.bundle(*targets))) if targets else elves.Library().build()
    (tmp_path / "kernel.hip.o").write_bytes(data)
    assert states(tmp_path, "pytorch-python313-rocm6_4-gfx942-avx512") == {"gpu": status}
