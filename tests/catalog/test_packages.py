"""Packages are data: what is wrong with an entry is said with its place and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.catalog import builtin_catalog, load_catalog
from torchsmith.catalog.axes import CudaVersion, PythonVersion, Sm
from torchsmith.core.problem import Invalid, NotKnown, Problem

GOOD = """\
[mix]
title = "Mix"
attr = "mix"
source = "a test"
needs = ["pytorch"]
"""
CIRCLE = GOOD.replace('"pytorch"', '"pytorch", "mux"') + GOOD.replace("mix", "mux").replace(
    '"pytorch"', '"pytorch", "mix"'
)


def load(folder: Path, text: str, file: str = "packages") -> None:
    (folder / f"{file}.toml").write_text(text)
    load_catalog(folder)


def test_a_limit_of_builds_for_the_cpu_leaves_gpu_cells_alone(tmp_path: Path) -> None:
    load(tmp_path, GOOD + '[mix.limits.cpu]\nreason = "Nix: none"\ncuda = "cpu"\n')
    [limit] = load_catalog(tmp_path).packages["mix"].limits.values()
    python, cuda, sm = PythonVersion(3, 13), CudaVersion(12, 8), Sm(90)
    assert limit.meets(None, python, None, None, "x86_64-linux")
    assert not limit.meets(None, python, cuda, sm, "x86_64-linux")
    assert str(load_catalog(tmp_path).packages["mix"]) == "mix"


def test_a_line_that_names_its_packages_builds_those_alone() -> None:
    catalog = builtin_catalog()
    [line] = [line for line in catalog.lines.values() if line.packages == ("pytorch",)]
    assert [name for name, package in catalog.packages.items() if line.builds(package)] == ["pytorch"]


def test_an_entry_is_enough(tmp_path: Path) -> None:
    load(tmp_path, GOOD + '[mix.versions]\n"2.10" = "0.4.2"\n[mix.hashes]\n"2.10" = "sha256-x"\n')
    catalog = load_catalog(tmp_path)
    assert list(catalog.packages) == [*builtin_catalog().packages, "mix"]
    line = catalog.lines["2.10"]
    assert (line.version_of("mix"), line.hashes["mix"]) == ("0.4.2", "sha256-x")
    assert (line.version_of("torchvision"), line.release.of("mix")) == ("0.25.0", "04")


def test_a_line_says_the_release_of_any_package_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "packages.toml").write_text(GOOD)
    load(tmp_path, '["2.10"]\nmix = "0.5"\ntorchvision = "0.25.9"\n', "lines")
    line = load_catalog(tmp_path).lines["2.10"]
    assert (line.version_of("mix"), line.version_of("torchvision")) == ("0.5", "0.25.9")
    with pytest.raises(Problem, match="mux") as caught:
        load(tmp_path, '["2.10"]\nmux = "0.5"\n', "lines")
    assert caught.value.where is not None
    assert caught.value.where.line == 2


@pytest.mark.parametrize(
    ("text", "line", "kind", "said"),
    [
        (GOOD + 'colour = "red"\n', 6, NotKnown, "colour"),
        (GOOD + GOOD, 6, Invalid, "[mix]"),
        (GOOD.replace('attr = "mix"', 'attr = "vllm"'), 3, Invalid, " vllm "),
        (GOOD + 'modules = ["mix", "vllm"]\n', 6, Invalid, " vllm "),
        (GOOD.replace('attr = "mix"', 'attr = "mix; rm -rf"'), 3, Invalid, "'mix; rm -rf'"),
        (GOOD.replace('"pytorch"', '"pytroch"'), 5, Invalid, "pytorch?"),
        (GOOD.replace("[mix]", "[Mix]"), 1, Invalid, "'Mix'"),
        (GOOD.replace("[mix]", "[torchvision12]"), 1, Invalid, "torchvision12"),
        (GOOD + 'cuda = "12 or so"\n', 6, Invalid, "12 or so"),
        (GOOD + 'gpu_list = { by = "cmake" }\n', 6, Invalid, "name = "),
        (GOOD.replace('needs = ["pytorch"]\n', ""), 1, Invalid, "TORCH_CUDA_ARCH_LIST"),
        (GOOD + 'lines = ["2.99"]\n', 6, Invalid, "'2.99'"),
        (GOOD.replace('"pytorch"', '"pytorch", "mix"'), 5, Invalid, "mix -> mix"),
        (GOOD.replace('"pytorch"', '"mix"'), 5, Invalid, "mix -> mix"),
        ('[torchvision]\nneeds = ["pytorch", "vllm"]\n', 2, Invalid, " -> "),
        (CIRCLE, 0, Invalid, " -> "),
        (GOOD + 'trial = "def ("\n', 6, Invalid, "trial"),
    ],
)
def test_a_bad_entry_is_refused_with_its_place_and_a_hint(
    text: str, line: int, kind: type[Problem], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        load(tmp_path, text)
    problem = caught.value
    assert said in str(problem)
    assert problem.hint
    assert problem.where is not None
    assert problem.where.file == str(tmp_path / "packages.toml")
    assert problem.where.line == line or not line
