"""What is in a repository is found where Flox finds it, and words pick the same of it for every verb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Empty, NotFound, NotKnown, Problem
from torchsmith.edit.plan import plan_workspace
from torchsmith.recipe.read import read_recipe
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.checkout import choose, recipes_in, split
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.subject import Subject

PROGRAM = str(Path(sys.executable).with_name("torchsmith"))
AVX2 = "pytorch-python313-cpu-avx2"
ARM = "pytorch-python313-cuda13_0-sm110-armv9"
VISION = "torchvision-python313-cuda12_8-sm61-avx"
REV = "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"
PINNED = f'import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/{REV}.tar.gz") {{ }}'
TWO_LINES = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90"]
isa = ["avx2"]
[[matrix]]
line = "2.9"
python = ["3.12"]
cuda = ["12.8"]
sm = ["sm90"]
isa = ["avx2"]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    pkgs = tmp_path / "build-pytorch/.flox/pkgs"
    for file in (f"{AVX2}.nix", f"{ARM}.nix", "tools/helper.nix", "odd/default.nix", "odd/lib.nix", "a.txt"):
        (pkgs / file).parent.mkdir(parents=True, exist_ok=True)
        (pkgs / file).write_text("1")
    (pkgs / "link.nix").symlink_to(pkgs / f"{AVX2}.nix")
    (tmp_path / "build-pytorch/nix").mkdir()
    (tmp_path / "build-pytorch/nix/shared.nix").write_text("1")
    return tmp_path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Two releases of three packages, each recipe a folder with a file of its own beside it."""
    (tmp_path / "torchsmith.toml").write_text(TWO_LINES)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    for file in tmp_path.glob("build-*/.flox/pkgs/*.nix"):
        file.with_suffix("").mkdir()
        (file.with_suffix("") / "lib.nix").write_text("{ }: { }\n")
        file.rename(file.with_suffix("") / "default.nix")
    return tmp_path


def git(repo: Path, *args: str) -> None:
    subprocess.run(["git", "-C", repo, *args], check=True, capture_output=True)


def names(words: list[str], folder: Path) -> list[str]:
    return [recipe.name for recipe in choose(words, None, folder).recipes]


def test_a_workspace_and_a_repository_hold_the_same_recipes(workspace: Path) -> None:
    expected = ["odd", AVX2, ARM, "helper"]
    assert sorted(one.name for one in recipes_in(workspace)) == sorted(expected)
    assert sorted(one.name for one in recipes_in(workspace / "build-pytorch")) == sorted(expected)


def test_a_name_tells_the_system_of_its_recipe(workspace: Path) -> None:
    systems = {one.name: one.system for one in recipes_in(workspace)}
    assert systems[ARM] == "aarch64-linux"
    assert systems[AVX2] == "x86_64-linux"
    assert systems["odd"] == ""


def test_text_pick_recipes(workspace: Path) -> None:
    assert names([AVX2], workspace) == [AVX2]
    assert names(["cpu"], workspace) == [AVX2]
    assert names(["sm110", "armv9"], workspace) == [ARM]
    assert names(["odd"], workspace) == ["odd"]
    assert names(["odd", AVX2], workspace) == ["odd", AVX2]
    assert names([str(workspace / "build-pytorch"), "cpu"], Path("/")) == [AVX2]
    assert names([str(workspace / "build-pytorch/nix/shared.nix")], Path("/")) == ["shared"]
    assert len(names([], workspace)) == 4


def test_a_plain_folder_of_recipes_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.nix").write_text("1")
    assert names([str(tmp_path)], Path("/")) == ["one"]
    (tmp_path / f"{AVX2}.nix").write_text("1")
    assert names([str(tmp_path)], Path("/")) == [AVX2]


def test_the_same_name_in_two_repositories_is_told_apart(workspace: Path) -> None:
    other = workspace / "build-other/.flox/pkgs"
    other.mkdir(parents=True)
    (other / f"{AVX2}.nix").write_text("1")
    found = [one.name for one in recipes_in(workspace)]
    assert f"build-other/{AVX2}" in found
    assert f"build-pytorch/{AVX2}" in found
    assert names([f"build-other/{AVX2}"], workspace) == [f"build-other/{AVX2}"]
    assert len(names([AVX2], workspace)) == 2


def test_what_git_ignores_is_no_recipe_and_what_it_does_not_know_is_marked(workspace: Path) -> None:
    repo = workspace / "build-pytorch"
    git(repo, "init", "--quiet")
    (repo / ".flox/.gitignore").write_text("tools/\n")
    git(repo, "add", f".flox/pkgs/{AVX2}.nix")
    known = {one.name: one.known for one in recipes_in(workspace)}
    assert known == {AVX2: True, ARM: False, "odd": False}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["pytorch-python313-cpu-avx512"], NotFound),
        (["sm90"], Empty),
        (["odd", "cpu"], Empty),
        (["./nowhere.nix"], NotFound),
        (["nowhere.whl"], NotFound),
        (["build-pytorch/nowhere"], NotFound),
        (["nonsense"], NotKnown),
    ],
)
def test_what_is_not_there_is_named(words: list[str], kind: type[Problem], workspace: Path) -> None:
    with pytest.raises(kind, match=" ".join(words).removeprefix("./")) as caught:
        names(words, workspace)
    assert "apply" not in caught.value.hint, "that is for a folder without recipes"


@pytest.mark.parametrize("word", ["nowhere.whl", "dist/nowhere"])
def test_a_path_is_not_called_a_recipe(word: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        names([word], tmp_path)
    assert str(caught.value) == f"there is no file {word}"


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=str(tmp_path)) as caught:
        names([], tmp_path)
    assert "torchsmith apply" in caught.value.hint


@pytest.mark.parametrize(
    ("file", "text", "release"),
    [
        (AVX2, '{ pname = "pytorch29-python313-cpu-avx2"; }', "2.9"),
        (AVX2, '{ version = "2.10.0"; } # not "2.9.1"', "2.10"),
        (AVX2, f"({PINNED}.python313Packages.torch)", "2.8"),
        (AVX2, f'({PINNED}).torch.overrideAttrs {{ version = "2.77.0"; }}', ""),
        (AVX2, "{ python3Packages }: python3Packages.torch", "flox"),
        (f"{ARM}-nightly", "{ }: null", "nightly"),
        (AVX2, '[ "2.9.1" "2.10.0" ]', ""),
        (AVX2, "{ }: null", ""),
        (AVX2.replace("pytorch", "pytorch28"), "{ }: null", "2.8"),
    ],
)
def test_the_release_is_what_something_says_and_never_a_guess(
    file: str, text: str, release: str, tmp_path: Path
) -> None:
    (tmp_path / f"{file}.nix").write_text(text)
    (recipe,) = recipes_in(tmp_path)
    assert recipe.release == release
    judged = Subject(file, read_recipe(recipe.path), builtin_catalog())
    assert judged.release == recipe.release
    assert (judged.line.name if judged.line else "") == release


def test_overrides_of_libraries_below_torch_are_known_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / f"{AVX2}.nix"
    file.write_text("{ magma, torch }: torch.override { magma = magma.override { a = 1; }; }")
    judged = Subject(AVX2, read_recipe(file), builtin_catalog())
    assert {package for package, _ in judged.overrides} == {"torch", "magma"}


def test_a_companion_is_of_the_release_of_the_torch_beside_it(tmp_path: Path) -> None:
    torch = VISION.replace("torchvision", "pytorch")
    text = f"({PINNED}).torchvision.override {{ torch = import ./{torch}.nix {{ }}; }}"
    (tmp_path / f"{VISION}.nix").write_text(text)
    for source, line in (("{ }: null", ""), (f"({PINNED}).torch", "2.8"), (text, "2.8"), ("{ ]", "")):
        (tmp_path / f"{torch}.nix").write_text(source)
        vision = next(one for one in recipes_in(tmp_path) if one.attr == VISION)
        judged = Subject(VISION, read_recipe(vision.path), builtin_catalog())
        assert vision.release == judged.release
        assert vision.release == line


def test_every_verb_counts_and_selects_the_same(lines: Path) -> None:
    opened = open_workspace(lines)
    for words, count in (([], 6), (["line:2.10"], 3), (["line:2.9", "torchaudio"], 1)):
        chosen = [one.name for one in choose(words, opened, lines).recipes]
        assert len(chosen) == count
        assert sorted(chosen) == sorted(cell.name for cell in opened.select(words).cells)
        assert audit((lines,), selectors=tuple(words)).recipes == count
    assert sum(change.recipe for change in plan_workspace(lines).changes) == 6


def test_a_file_beside_a_default_nix_is_no_recipe(lines: Path) -> None:
    report = audit((lines,))
    assert not {one.rule for one in report.findings} & {"TS011", "TS003"}


def test_what_looks_like_a_path_is_one_though_nothing_lies_there(tmp_path: Path) -> None:
    for word in ("./nowhere", "../nowhere", f"{tmp_path}/nowhere"):
        assert split([word, "sm90"]) == ((Path(word),), ("sm90",))
    with pytest.raises(NotFound) as caught:
        audit((tmp_path / "nowhere",))
    assert caught.value.message == f"no such folder: {tmp_path}/nowhere"
