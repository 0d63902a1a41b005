"""A package whose wheel has a library for each CUDA release is judged by the one that is loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.artifact.test_verdict import CATALOG, check, gpu, judged
from torchsmith.artifact.report import verify
from torchsmith.artifact.source import EXPECTED
from torchsmith.core.problem import Problem


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "bitsandbytes-0.48.2-py3-none-manylinux_2_24_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for cuda, target in (("126", 80), ("128", 90), ("130", 120)):
            name = f"bitsandbytes/libbitsandbytes_cuda{cuda}.so"
            archive.writestr(name, gpu([elves.entry(target)]))
        archive.writestr("bitsandbytes/libbitsandbytes_cpu.so", elves.Library().build())
    return path


def test_without_a_variant_each_library_is_told_for_itself(wheel: Path) -> None:
    report = verify(wheel, None, CATALOG)
    assert report.ok
    assert report.gpu_by_library == {
        "bitsandbytes/libbitsandbytes_cuda126.so": ["cubin 80"],
        "bitsandbytes/libbitsandbytes_cuda128.so": ["cubin 90"],
        "bitsandbytes/libbitsandbytes_cuda130.so": ["cubin 120"],
    }


def test_a_gpu_is_judged_by_each_of_the_libraries_that_replace_each_other(wheel: Path) -> None:
    report = verify(wheel, None, CATALOG)
    found = {service.sm: service for service in report.services}
    assert found["sm80"].libraries == {"native": 1, "no": 2}
    assert (found["sm89"].serving, found["sm60"].serving) == (1, 0)


def test_with_one_the_library_of_its_cuda_is_judged_alone(wheel: Path) -> None:
    right = judged(wheel, "bitsandbytes-python313-cuda12_8-sm90-avx2")
    assert (check(right, "gpu").status, list(right.gpu_by_library)) == (
        "right",
        ["bitsandbytes/libbitsandbytes_cuda128.so"],
    )
    other = judged(wheel, "bitsandbytes-python313-cuda12_6-sm90-avx2")
    assert check(other, "gpu").status == "wrong"
    with pytest.raises(Problem) as caught:
        judged(wheel, "bitsandbytes-python313-cuda12_9-sm90-avx2")
    assert caught.value.hint == EXPECTED
    none = judged(wheel, "bitsandbytes-python313-cpu-avx2")
    assert none.gpu_by_library == {}, "the libraries for GPUs are not loaded"
