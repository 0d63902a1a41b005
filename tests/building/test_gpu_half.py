"""The GPU half of a torch: what is compiled, how it is resumed, and when two kernels are the same."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tools.gpu_half.compiling import compile_units, link
from tools.gpu_half.models import compare_models
from tools.gpu_half.pack import pack
from tools.gpu_half.prepare import recipe_environment
from tools.gpu_half.same import kernels
from tools.gpu_half.work import Plan, Unit, Work
from torchsmith.artifact.elf import HEADER, SECTION
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.matrix.variant import Variant

NAME = "pytorch-python312-cuda13_0-sm90-avx512"


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path / "here")
    (work.build / "lib").mkdir(parents=True)
    (work.source / "aten").mkdir(parents=True)
    (work.source / "aten/used.h").write_text("used")
    return work


def planned(work: Work, *units: Unit) -> None:
    work.write(Plan(NAME, {"FLAGS": "-mfma"}, units, {}))


def test_the_flags_are_those_of_the_recipe() -> None:
    catalog = builtin_catalog()
    environment = recipe_environment(Variant.parse(NAME, catalog), catalog)
    assert environment["TORCH_CUDA_ARCH_LIST"] == "9.0"
    for name in ("CFLAGS", "CXXFLAGS"):
        assert set(catalog.isas["avx512"].flags) < set(environment[name].split())
    with pytest.raises(Problem):
        recipe_environment(Variant.parse("pytorch-python312-cpu-avx512", catalog), catalog)


def test_a_plan_travels_to_another_folder(work: Work, tmp_path: Path) -> None:
    planned(work, Unit("a.o", f"cp {work.source}/aten/used.h a.o"))
    assert pack(work, tmp_path / "all.tar.xz", objects=True) == 2
    elsewhere = Work(tmp_path / "elsewhere")
    work.folder.rename(elsewhere.folder)
    assert compile_units(elsewhere, jobs=1, limit=60, only="") == (1, 0)
    assert (elsewhere.build / "a.o").read_text() == "used"


def test_units_are_compiled_once_and_the_failed_ones_again(work: Work) -> None:
    planned(work, Unit("a/a.o", "echo $FLAGS >> a/a.o"), Unit("b.o", "echo > b.o; test -e repaired"))
    assert compile_units(work, jobs=2, limit=60, only="") == (1, 1)
    with pytest.raises(Problem):
        link(work, work.folder)
    (work.build / "repaired").touch()
    assert compile_units(work, jobs=2, limit=60, only="") == (2, 0)
    assert (work.build / "a/a.o").read_text() == "-mfma\n"
    assert sorted(line.split("\t")[1:] for line in work.seconds.read_text().splitlines()) == [
        ["0", "a/a.o"],
        ["0", "b.o"],
        ["1", "b.o"],
    ]


def test_what_the_limit_cuts_off_leaves_no_object(work: Work) -> None:
    planned(work, Unit("a.o", "echo > a.o; sleep 600"), Unit("b.o", "echo > b.o"))
    assert compile_units(work, jobs=1, limit=0.5, only="") == (0, 0)
    assert not work.seconds.exists()


def cubin(name: str, code: bytes) -> bytes:
    """The parts of a cubin that are read: its section names, and one section of code."""
    names = b"\0.names\0.text." + name.encode() + b"\0"
    table = HEADER.size + len(names) + len(code)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, 2, 0)
    rows = (
        SECTION.pack(1, 3, 0, 0, HEADER.size, len(names), 0, 0, 1, 0),
        SECTION.pack(8, 1, 6, 0, HEADER.size + len(names), len(code), 0, 0, 1, 0),
    )
    return head + names + code + b"".join(rows)


@pytest.mark.parametrize(
    ("name", "ours", "wheels"),
    [
        (
            "_ZN2at{}7forwardEv",
            "62_GLOBAL__N__f0d1b509_29_ActivationLogSigmoidKernel_cu_9d16a0dc",
            "68_GLOBAL__N__00000001_29_ActivationLogSigmoidKernel_cu_fedcba98_14910",
        ),
        ("_ZN6thrust{}_NS6detailE", "23THRUST_300001_SM_900", "48THRUST_300001_SM_750_800_860_900_1000_1200"),
    ],
)
def test_a_kernel_is_found_whatever_path_and_list_it_was_compiled_with(
    name: str, ours: str, wheels: str
) -> None:
    here, there = (dict(kernels(cubin(name.format(part), b"code"))) for part in (ours, wheels))
    assert here == there
    assert list(here.values()) == [b"code"]
    assert here.keys() != dict(kernels(cubin("_ZN2at7forwardEv", b"code"))).keys()


def test_models_are_timed_in_turns(tmp_path: Path) -> None:
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho $PYTHONPATH >> {log}\n"
        'case $PYTHONPATH in /ours) s=0.9;; *) s=1.0;; esac\necho "{\\"one\\": $s, \\"two\\": 2}"\n'
    )
    python.chmod(0o755)
    one, two = compare_models(python, (Path("/ours"), Path("/wheel")), 8)
    assert one[:3] == ("one", [0.9] * 8, [1.0] * 8)
    assert one[3].ratio == pytest.approx(0.9)
    assert one[3].high < 1
    assert two[3].ratio == 1
    assert log.read_text().split()[:4] == ["/ours", "/wheel", "/wheel", "/ours"]
    python.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Problem):
        list(compare_models(python, (Path("/ours"), Path("/wheel")), 8))
