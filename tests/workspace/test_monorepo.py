"""A workspace inside a git repository: none is made within it, and its state is outside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.core.problem import NotFound
from torchsmith.core.process import run
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.git import lay_out

TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm120"]
isa = ["avx2"]
"""
WHO = ("-c", "user.name=A", "-c", "user.email=a@b")


def git(folder: Path, *words: str) -> list[str]:
    done = run(["git", "-C", folder, *WHO, *words])
    assert done.ok, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "config", "user.email", "a@b")
    (folder := tmp_path / "packages/torch").mkdir(parents=True)
    (folder / "torchsmith.toml").write_text(TOML)
    return folder


def test_a_repository_without_the_revision_is_new(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        git(tmp_path / name, "init", "--quiet")
        git(tmp_path / name, "add", "file")
        git(tmp_path / name, "commit", "--quiet", "--message", "a file")
    [revision] = git(tmp_path / "old", "rev-parse", "HEAD")
    lay_out(tmp_path, revision, tmp_path / "before")
    assert [file.parent.name for file in (tmp_path / "before").rglob("file")] == ["old"]
    with pytest.raises(NotFound):
        lay_out(tmp_path, "nothing", tmp_path / "before")


def test_generating_adds_to_the_repository_around_it(inside: Path) -> None:
    apply(ApplyRequest(workspace=inside))
    assert not list(inside.rglob(".git"))
    staged = git(inside, "diff", "--cached", "--name-only", "--relative")
    assert "build-torchvision/.flox/pkgs/torchvision-python313-cuda13_0-sm120-avx2.nix" in staged
    left = git(inside, "status", "--porcelain", "--untracked-files=all", "--", ".")
    assert [line for line in left if line.startswith("??")] == ["?? packages/torch/torchsmith.toml"]


def test_applying_commits_what_is_its_own_and_nothing_else(inside: Path) -> None:
    (inside.parents[1] / "notes.txt").write_text("theirs")
    git(inside.parents[1], "add", "notes.txt")
    applied = apply(ApplyRequest(workspace=inside, commit=True))
    assert applied.commits
    assert not list(inside.rglob(".git"))
    assert git(inside.parents[1], "status", "--porcelain", "notes.txt") == ["A  notes.txt"]
    kept = git(inside, "ls-tree", "-r", "--name-only", "HEAD")
    assert "build-pytorch/default.nix" in kept
    assert not apply(ApplyRequest(workspace=inside, commit=True)).commits


def test_a_folder_that_the_repository_ignores_gets_repositories_of_its_own(inside: Path) -> None:
    (inside.parents[1] / ".gitignore").write_text("/packages/\n")
    apply(ApplyRequest(workspace=inside))
    assert len(list(inside.rglob(".git"))) == 3
