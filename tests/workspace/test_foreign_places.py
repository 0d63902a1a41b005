"""Repositories and files that a checkout brings lead to nothing else of the user."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.core.files import write_atomic
from torchsmith.core.git import git
from torchsmith.core.problem import Invalid, Refused
from torchsmith.workspace.git import init
from torchsmith.workspace.journal import UNREADABLE, _digest


def made(folder: Path) -> Path:
    """A repository with one commit."""
    init(folder)
    (folder / "a").write_text("a")
    for words in (("add", "a"), ("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "a")):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


def test_git_works_in_no_repository_of_another_folder(tmp_path: Path) -> None:
    own, other = made(tmp_path / "own"), made(tmp_path / "other")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/.git").symlink_to(other / ".git")
    (tmp_path / "file").mkdir()
    (tmp_path / "file/.git").write_text(f"gitdir: {other}/.git\n")
    for folder in (tmp_path / "link", tmp_path / "file"):
        with pytest.raises(Refused):
            git(folder, "status")
    git(own, "config", "core.worktree", str(other))
    with pytest.raises(Refused):
        git(own, "add", "--update")
    git(own, "config", "--unset", "core.worktree")
    git(own, "config", "extensions.worktreeConfig", "true")
    git(own, "config", "--worktree", "core.worktree", str(other))
    with pytest.raises(Refused):
        git(own, "add", "--update")


@pytest.mark.parametrize(
    "name",
    [
        *("COMMIT_EDITMSG", "HEAD", "index", "config", "logs/HEAD", "logs/refs/heads/main"),
        *("refs", "refs/heads", "refs/heads/main", "objects", "objects/aa", "logs"),
    ],
)
def test_git_writes_to_no_file_that_a_link_in_its_folder_leads_to(tmp_path: Path, name: str) -> None:
    own, other = made(tmp_path / "own"), made(tmp_path / "other")
    link, target = own / ".git" / name, other / ".git" / name
    subprocess.run(["rm", "-rf", link], check=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    before = git(other, "rev-parse", "main").stdout
    for command in (("add", "a"), ("commit", "--allow-empty", "--message", "b")):
        with pytest.raises(Refused):
            git(own, *command)
    git(own, "status")
    assert git(other, "rev-parse", "main").stdout == before


def test_git_uses_no_refs_and_objects_of_a_repository_that_a_file_names(tmp_path: Path) -> None:
    own, other = made(tmp_path / "own"), made(tmp_path / "other")
    (own / ".git/commondir").write_text(f"{other}/.git\n")
    with pytest.raises(Refused):
        git(own, "commit", "--allow-empty", "--message", "b")
    subprocess.run(["git", "-C", other, "worktree", "add", "-q", tmp_path / "tree"], check=True)
    (other / ".git/worktrees/tree/commondir").write_text(f"{tmp_path}/third/.git\n")
    with pytest.raises(Refused):
        git(tmp_path / "tree", "status")


def test_linked_worktrees_and_submodules_are_repositories_of_their_folder(tmp_path: Path) -> None:
    own, inner = made(tmp_path / "own"), made(tmp_path / "inner")
    subprocess.run(["git", "-C", own, "worktree", "add", "-q", tmp_path / "tree"], check=True)
    allowed = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", own, *allowed, "submodule", "--quiet", "add", inner, "sub"], check=True)
    (own / ".git/hooks").rename(tmp_path / "hooks")
    (own / ".git/hooks").symlink_to(tmp_path / "hooks")
    for folder in (tmp_path / "tree", own / "sub", own):
        assert git(folder, "status", "--porcelain").ok
        assert git(folder, "add", "--all").ok


@pytest.mark.parametrize(
    "name",
    [
        *(".gitignore", ".gitattributes", ".gitmodules"),
        *(".git/HEAD", ".git/index", ".git/config", ".git/config.worktree", ".git/packed-refs"),
        *(".git/commondir", ".git/info/exclude", ".git/info/attributes"),
    ],
)
def test_git_is_not_started_where_it_would_wait_for_a_fifo(tmp_path: Path, name: str) -> None:
    own = made(tmp_path / "own")
    (own / ".git/info").mkdir(exist_ok=True)
    (own / name).unlink(missing_ok=True)
    os.mkfifo(own / name)
    for command in (("ls-files",), ("status",), ("add", "a")):
        with pytest.raises(Refused):
            git(own, *command)


def test_a_verb_ends_soon_if_git_waits_for_a_file_that_only_its_settings_name(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = made(tmp_path / "own")
    (own / ".flox/pkgs").mkdir(parents=True)
    (own / ".flox/pkgs/a.nix").write_text("{ }: { }")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr("torchsmith.core.git.READ_SECONDS", 0.5)
    for key in ("core.excludesFile", "include.path"):
        subprocess.run(["git", "-C", own, "config", key, tmp_path / "fifo"], check=True)
        assert call("audit", str(own), "--format", "json").error == "failed"
        subprocess.run(["git", "config", "--file", own / ".git/config", "--unset", key], check=True)


def test_an_index_that_git_cannot_read_is_an_error_of_the_audit(tmp_path: Path, call: Call) -> None:
    own = made(tmp_path / "own")
    (own / ".flox/pkgs").mkdir(parents=True)
    (own / ".flox/pkgs/a.nix").write_text("{ }: { }")
    (own / ".git/index").write_text("damaged")
    assert call("audit", str(own), "--format", "json").error == "failed"


def test_a_file_too_large_to_read_is_not_taken_for_none(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, 17 << 20)
    assert _digest(file) == UNREADABLE
    assert _digest(tmp_path / "missing") == ""


def test_a_draft_that_is_a_fifo_or_another_name_of_a_file_is_removed(tmp_path: Path) -> None:
    notes, target = tmp_path / "notes", tmp_path / "out"
    notes.write_text("precious")
    draft = tmp_path / f".out.{threading.get_native_id()}.new"
    os.link(notes, draft)
    write_atomic(target, "text")
    assert (target.read_text(), notes.read_text()) == ("text", "precious")
    os.mkfifo(draft)
    write_atomic(target, "again")
    assert target.read_text() == "again"


def test_files_of_the_user_are_not_overwritten(tmp_path: Path, call: Call) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/torchsmith.schema.json").write_text("mine")
    assert call("init", str(tmp_path / "new"), "--json").error == "exists"


def test_a_number_of_settings_with_thousands_of_digits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "9" * 5000)
    with pytest.raises(Invalid):
        git(tmp_path, "status")
