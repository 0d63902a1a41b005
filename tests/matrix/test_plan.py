"""The default matrix is the plan: 44 variants a package, under exactly the names that the plan lists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from torchsmith.matrix import Matrix
from torchsmith.matrix.cells import neighbours
from torchsmith.workspace.load import DEFAULT, default_profiles, open_workspace

SMS = ("sm121", "sm120", "sm110", "sm103", "sm100", "sm90", "sm89", "sm86", "sm80")
X86 = ("avx2", "avx512", "avx512bf16", "avx512vnni")
ARM = ("armv8_2", "armv9")


def matrix(profile: str) -> Matrix:
    return open_workspace(DEFAULT, profile).matrix


def plan_of(package: str) -> set[str]:
    """The plan's tables, written out by hand: 36 + 4 + 4."""
    gpu = {f"{package}-python313-cuda13_0-{sm}-{isa}" for sm in SMS for isa in X86}
    arm = {f"{package}-python313-cuda13_0-{sm}-{isa}" for sm in ("sm110", "sm121") for isa in ARM}
    cpu = {f"{package}-python313-cpu-{isa}" for isa in X86}
    return gpu | arm | cpu


PACKAGES = ("pytorch", "torchvision", "torchaudio")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_default_holds_the_plans_names_and_no_other(package: str) -> None:
    names = [cell.name for cell in matrix("seed").cells if cell.variant.package.name == package]
    assert len(names) == 44
    assert set(names) == plan_of(package)


def test_the_eight_cells_that_no_machine_can_use_are_warned_of() -> None:
    warned = [cell for cell in matrix("seed").cells if cell.warnings]
    assert Counter(cell.variant.package.name for cell in warned) == dict.fromkeys(PACKAGES, 8)
    assert {str(cell.variant.sm) for cell in warned} == {"sm110", "sm121"}
    assert {cell.warnings[0].code for cell in warned} == {"no-machine"}


def test_the_real_profile_is_the_plan_without_them() -> None:
    real, plan = matrix("real"), matrix("seed")
    assert {cell.name for cell in plan.cells if not cell.warnings} == {cell.name for cell in real.cells}
    assert len(real.cells) == 3 * 36
    assert len(real.left_out) == 3 * 8


def test_the_wide_profile_is_every_cell_that_hardware_and_toolkit_allow() -> None:
    wide = matrix("wide")
    names = {cell.name for cell in wide.cells}
    assert all(warning.code != "no-machine" for cell in wide.cells for warning in cell.warnings)
    assert "pytorch-python313-cuda12_9-sm87-armv8_2" in names
    assert "pytorch-python313-cuda13_0-sm87-armv8_2" not in names, "its nixpkgs has no CUDA 13 for Orin"
    assert "pytorch-python313-cuda12_9-sm87-armv9" not in names, "Orin's CPU is no ARMv9"
    assert "pytorch-python313-cuda12_8-sm103-avx2" not in names, "CUDA 12.8 has no sm103"
    assert "pytorch-python313-cuda12_9-sm121-armv9" in names
    assert "pytorch-python313-cuda12_9-sm110-armv9" not in names, "sm110 is sm101 before CUDA 13"
    assert "pytorch-python313-cpu-avx" in names
    counted = Counter(cell.variant.package for cell in wide.cells)
    assert len(set(counted.values())) == 1
    left = {left.variant.name for left in wide.left_out}
    assert not left & names
    assert len(left) + len(names) == 3 * (4 * 11 + 1) * 7, "each cell of the product is in or out"


OWN = """
format = 1
line = "2.10"
include = ["pytorch-python312-cpu-avx2", "torchvision-python312-cpu-avx2"]
exclude = ["sm90 avx512", "package:torchaudio cpu"]
[[matrix]]
python = ["3.13"]
cuda = ["cpu", "12.8"]
sm = ["sm90", "sm120"]
isa = ["avx2", "avx512", "armv9"]
[[matrix]]
line = "2.9"
prefix = true
packages = ["pytorch", "torchvision"]
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm90"]
isa = ["avx2"]
"""


@pytest.mark.parametrize("profile", [*default_profiles(), ""])
def test_what_is_asked_of_a_part_of_a_matrix_is_as_in_the_whole(profile: str, tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(OWN)
    opened = open_workspace(None if profile else tmp_path, profile or None)
    whole = opened.matrix
    for package in opened.catalog.packages.values():
        assert opened.cells_of(package) == tuple(one for one in whole.cells if one.variant.package == package)
    assert all(opened.has(cell.variant) for cell in whole.cells)
    assert not any(opened.has(left.variant) for left in whole.left_out)
    held = {cell.variant for cell in whole.cells}
    for cell in whole.cells:
        for other in neighbours(cell.variant, opened.catalog):
            assert opened.has(other) == (other in held), other
