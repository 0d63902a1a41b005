"""Recipes are found where Flox finds them, and picked by name, selector or path."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.edge.problem import Problem
from torchsmith.workspace.recipes import choose_recipes, recipes_in

CATALOG = builtin_catalog()
AVX2 = "pytorch-python313-cpu-avx2"
ARM = "pytorch-python313-cuda13_0-sm110-armv9"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    pkgs = tmp_path / "build-pytorch/.flox/pkgs"
    for file in (f"{AVX2}.nix", f"{ARM}.nix", "tools/helper.nix", "odd/default.nix", "notes.txt"):
        (pkgs / file).parent.mkdir(parents=True, exist_ok=True)
        (pkgs / file).write_text("1")
    (pkgs / "link.nix").symlink_to(pkgs / f"{AVX2}.nix")
    (tmp_path / "build-pytorch/nix").mkdir()
    (tmp_path / "build-pytorch/nix/shared.nix").write_text("1")
    return tmp_path


def names(words: list[str], folder: Path) -> list[str]:
    return [recipe.name for recipe in choose_recipes(words, folder, CATALOG)]


def test_a_workspace_and_a_repository_hold_the_same_recipes(workspace: Path) -> None:
    expected = ["odd", AVX2, ARM, "helper"]
    assert sorted(one.name for one in recipes_in(workspace, CATALOG)) == sorted(expected)
    assert sorted(one.name for one in recipes_in(workspace / "build-pytorch", CATALOG)) == sorted(expected)


def test_a_name_tells_the_system_of_its_recipe(workspace: Path) -> None:
    systems = {one.name: one.system for one in recipes_in(workspace, CATALOG)}
    assert systems[ARM] == "aarch64-linux"
    assert systems[AVX2] == "x86_64-linux"
    assert systems["odd"] == ""


def test_words_pick_recipes(workspace: Path) -> None:
    assert names([AVX2], workspace) == [AVX2]
    assert names(["cpu"], workspace) == [AVX2]
    assert names(["sm110", "armv9"], workspace) == [ARM]
    assert names(["odd"], workspace) == ["odd"]
    assert names(["odd", "cpu"], workspace) == ["odd", AVX2]
    assert names([str(workspace / "build-pytorch/nix/shared.nix")], Path("/")) == ["shared"]
    assert len(names([], workspace)) == 4


def test_a_plain_folder_of_recipes_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.nix").write_text("1")
    assert names([str(tmp_path)], Path("/")) == ["one"]


def test_the_same_name_in_two_repositories_is_told_apart(workspace: Path) -> None:
    other = workspace / "build-other/.flox/pkgs"
    other.mkdir(parents=True)
    (other / f"{AVX2}.nix").write_text("1")
    found = [one.name for one in recipes_in(workspace, CATALOG)]
    assert f"build-other/{AVX2}" in found
    assert f"build-pytorch/{AVX2}" in found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pytorch-python313-cpu-avx512"], "there is no recipe pytorch-python313-cpu-avx512"),
        (["sm90"], "no recipe in .* matches sm90"),
        (["./nowhere.nix"], "there is no nowhere.nix"),
        (["nonsense"], "selector 'nonsense' matches no axis"),
    ],
)
def test_what_is_not_there_is_named(words: list[str], message: str, workspace: Path) -> None:
    with pytest.raises(Problem, match=message):
        names(words, workspace)


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="there is no recipe in") as caught:
        names([], tmp_path)
    assert "torchsmith generate writes them" in caught.value.hint
