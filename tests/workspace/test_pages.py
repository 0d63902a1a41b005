"""The pages of a workspace: an example that most people have, and no error that cannot be met."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.init import InitRequest, init
from torchsmith.verbs.page import PageRequest, page
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.readmes import _aligned


def readme(folder: Path, profile: str, cells: tuple[str, ...] = ()) -> str:
    init(InitRequest(folders=(folder,), profile=profile, cell=cells))
    apply(ApplyRequest(workspace=folder))
    return (folder / "build-pytorch/README.md").read_text()


@pytest.mark.parametrize(("profile", "example"), [("real", "cuda13_0-sm120-avx2"), ("wide", "sm120-avx2")])
def test_the_example_is_a_cell_that_many_can_use(profile: str, example: str, tmp_path: Path) -> None:
    text = readme(tmp_path, profile)
    [built] = set(re.findall(r"^    flox build (\S+)$", text, re.M))
    assert built.endswith(example)
    cell = next(one for one in open_workspace(tmp_path).matrix.cells if one.name == built)
    assert not cell.warnings


def test_a_gpu_that_needs_a_newer_driver_than_its_cuda_is_told(tmp_path: Path) -> None:
    cells = tuple(f"pytorch-python313-cuda12_8-{sm}-avx2" for sm in ("sm90", "sm120"))
    rows = re.findall(r"^\| `(\w+)` \| NVIDIA driver (\S+)", readme(tmp_path, "real", cells), re.M)
    assert rows == [("cuda12_8", "525.60.13"), ("sm120", "570")]


def test_pages_of_cpu_builds_speak_of_no_gpu(tmp_path: Path) -> None:
    text = readme(tmp_path, "real", ("pytorch-python313-cpu-avx2", "pytorch-python313-cpu-avx512"))
    assert not re.search("libcuda|GPU architecture|`sm`", text)
    [notes] = (tmp_path / "build-pytorch/docs").glob("*-build-notes.md")
    assert not re.search("CUDA|MAGMA|GPU|nvcc", notes.read_text().replace("| GPU |", ""))


def test_an_error_that_only_gpu_builds_meet_says_so() -> None:
    for error in builtin_catalog().errors.values():
        of_gpus = re.search("(?i)cuda|cudnn|magma|gpu|nvcc|nccl", f"{error.title} {error.cause} {error.fix}")
        assert error.gpu is bool(of_gpus), error.name


@pytest.mark.parametrize(("isa", "named"), [("avx2", False), ("armv9", True)])
def test_a_superchip_is_named_for_its_own_system_only(isa: str, named: bool, tmp_path: Path) -> None:
    init(InitRequest(folders=(tmp_path,), cell=(f"pytorch-python313-cuda13_0-sm90-{isa}",)))
    apply(ApplyRequest(workspace=tmp_path))
    page(PageRequest(folder=tmp_path, output=tmp_path / "page.html"))
    texts = {
        path: path.read_text() for path in tmp_path.rglob("*") if path.suffix in (".nix", ".md", ".html")
    }
    head = re.search(r"<small>H100[^<]*", texts[tmp_path / "page.html"])
    assert head is not None
    assert ("GH200" in head[0]) == named
    recipes = [text for path, text in texts.items() if path.suffix == ".nix" and "H100" in text]
    readmes = [text for path, text in texts.items() if path.suffix == ".md" and "H100" in text]
    assert recipes
    assert readmes
    assert {"GH200" in text for text in recipes + readmes} == {named}


def test_pages_describe_every_package_of_their_repository(tmp_path: Path) -> None:
    init(
        InitRequest(
            folders=(tmp_path,), cell=("pytorch-python313-cpu-avx2", "torchvision-python313-cpu-avx2")
        )
    )
    (tmp_path / "catalog").mkdir(exist_ok=True)
    (tmp_path / "catalog/packages.toml").write_text('[torchvision]\nrepo = "build-pytorch"\n')
    apply(ApplyRequest(workspace=tmp_path))
    repo = tmp_path / "build-pytorch"
    readme, table = ((repo / f"{name}.md").read_text() for name in ("README", "BUILD_MATRIX"))
    assert re.search(r"2 builds of PyTorch 2\S+ and TorchVision 0\S+: 2 for the CPU alone", readme)
    assert re.findall(r"^### (\w+), Python", readme, re.M) == ["PyTorch", "TorchVision"]
    assert re.findall(r"^\| `(\w+)-\S+` \| (\d)\.", table, re.M) == [("pytorch", "2"), ("torchvision", "0")]


def test_one_package_is_aligned_with_no_other() -> None:
    assert "only package" in _aligned(2, 2, ["PyTorch"])
    assert "every package" in _aligned(2, 2, ["PyTorch", "torchvision"])
