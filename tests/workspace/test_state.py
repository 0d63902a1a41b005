"""State is in the user's own folder: what a clone or an archive brings is never used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.building.conftest import Place
from tests.building.conftest import _pattern as _pattern
from tests.building.conftest import _store as _store
from tests.building.conftest import nix_here as nix_here
from tests.building.conftest import place as place
from tests.building.test_flox import STAND_IN
from tests.cli.conftest import Call
from torchsmith.core.files import cache_dir
from torchsmith.core.problem import CannotRead, CannotWrite, Failed, MissingRequirement, Problem
from torchsmith.core.state import (
    abandoned_states,
    make_state_folder,
    state_folder,
    state_home,
)
from torchsmith.record import open_record
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import FileStep, GitStep, Journal, stopped_run, writing

VERBS = (
    ("apply",),
    ("apply", "--yes"),
    ("build", "--dry-run"),
    ("publish", "--org", "us", "--dry-run"),
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim/precious"
    file.parent.mkdir()
    file.write_text("precious\n")
    return file


@pytest.fixture(autouse=True)
def _flox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(STAND_IN.parent), prepend=os.pathsep)


def bring(place: Place, name: str, text: str) -> None:
    folder = place.root / ".torchsmith"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.needs("nix")
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_journal_that_a_clone_brings_deletes_nothing_and_commits_nowhere(
    place: Place, nix_here: Path, victim: Path, call: Call, words: tuple[str, ...]
) -> None:
    subprocess.run(["git", "init", "-q", victim.parent], check=True)
    journal = {
        "verb": "apply",
        "decided": True,
        "writes": [],
        "deletes": [str(victim)],
        "steps": [{"repo": str(victim.parent), "add": ["precious"], "commit": ["precious"], "message": "x"}],
    }
    bring(place, "journal.json", json.dumps(journal))
    call(*place.words(*words))
    assert victim.read_text() == "precious\n"
    assert subprocess.run(["git", "-C", victim.parent, "rev-parse", "-q", "--verify", "HEAD"]).returncode


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(
    place: Place, victim: Path, call: Call
) -> None:
    (place.root / ".torchsmith").mkdir(exist_ok=True)
    lock = place.root / ".torchsmith/lock"
    lock.unlink(missing_ok=True)
    for make in (lock.symlink_to, lock.hardlink_to):
        make(victim)
        answer = call(*place.words("apply"))
        assert (answer.code, answer.error) == (3, "cannot-write")
        assert victim.read_text() == "precious\n"
        lock.unlink()


def test_a_state_folder_that_is_a_link_gets_no_file(place: Place, victim: Path, call: Call) -> None:
    shutil.rmtree(place.root / ".torchsmith", ignore_errors=True)
    (place.root / ".torchsmith").symlink_to(victim.parent)
    assert call(*place.words("apply")).error == "cannot-write"
    assert [file.name for file in victim.parent.iterdir()] == ["precious"]


@pytest.mark.needs("nix")
def test_logs_results_and_the_record_are_not_written_through_links(
    place: Place, nix_here: Path, victim: Path, call: Call
) -> None:
    folder = place.root / ".torchsmith"
    folder.mkdir(exist_ok=True)
    for name in ("logs", "results", "roots", "reports"):
        (folder / name).symlink_to(victim.parent)
    (folder / "record.sqlite").symlink_to(victim.parent / "new.sqlite")
    (folder / ".gitignore").unlink(missing_ok=True)
    (folder / ".gitignore").symlink_to(victim.parent / "ignored")
    assert call(*place.words("apply")).code == 0
    assert call(*place.words("build", place.torch)).code == 0
    assert [file.name for file in victim.parent.iterdir()] == ["precious"]
    assert open_record(place.root, read_only=True).built(place.torch) is not None


def stopped(root: Path, files: dict[str, tuple[str | None, str | None]], *steps: GitStep) -> Journal:
    """A decided journal of this workspace: texts before and after."""
    steps_of = {
        path: FileStep("" if old is None else digest(old), "" if new is None else digest(new))
        for path, (old, new) in files.items()
    }
    for path, (old, new) in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if old is not None:
            target.write_text(old)
        if new is not None:
            target.with_name(f".{target.name}.torchsmith-new").write_text(new)
    journal = Journal(verb="test", folder=root.stat().st_ino, decided=True, files=steps_of, steps=list(steps))
    (make_state_folder(root) / "journal.json").write_bytes(msgspec.json.encode(journal))
    return journal


def recovered(root: Path) -> str:
    with writing(root, "test") as writer:
        return writer.recovered


def test_a_file_that_was_edited_after_the_stop_is_kept_even_if_it_was_to_be_deleted(tmp_path: Path) -> None:
    stopped(tmp_path, {"gone": ("old", None), "kept": ("old", None)})
    (tmp_path / "kept").write_text("by hand")
    assert recovered(tmp_path).endswith("edited meanwhile and left: kept")
    assert (tmp_path / "kept").read_text() == "by hand"
    assert not (tmp_path / "gone").exists()


def test_an_edit_after_the_stop_is_not_committed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    step = GitStep(repo="repo", add=["a", "b"], message="ours")
    stopped(tmp_path, {"repo/a": ("old", "new"), "repo/b": ("old", "new")}, step)
    (tmp_path / "repo/a").write_text("by hand")
    recovered(tmp_path)
    names = ["git", "-C", str(tmp_path / "repo"), "ls-tree", "--name-only", "HEAD"]
    assert subprocess.run(names, capture_output=True, text=True, check=True).stdout.split() == ["b"]
    assert (tmp_path / "repo/a").read_text() == "by hand"


@pytest.mark.parametrize("way", ["absolute", "upwards", "folder link", "file link"])
def test_recovery_leaves_whatever_is_not_a_plain_file_of_the_workspace(
    tmp_path: Path, victim: Path, way: str
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "folder").symlink_to(victim.parent)
    (root / "file").symlink_to(victim)
    paths = {
        "absolute": str(victim),
        "upwards": "../victim/precious",
        "folder link": "folder/precious",
        "file link": "file",
    }
    stopped(root, {})
    journal = json.loads((state_folder(root) / "journal.json").read_text())
    journal["files"] = {paths[way]: {"before": digest("precious\n"), "after": ""}}
    journal["steps"] = [{"repo": "../victim", "add": ["precious"]}, {"repo": "folder", "add": ["precious"]}]
    (state_folder(root) / "journal.json").write_text(json.dumps(journal))
    recovered(root)
    assert victim.read_text() == "precious\n"
    assert not (victim.parent / ".git").exists()
    assert (root / "file").is_symlink()


def test_a_draft_that_is_not_the_stopped_run_s_own_is_not_put_in_place(tmp_path: Path) -> None:
    stopped(tmp_path, {"a": ("old", "new")})
    (tmp_path / ".a.torchsmith-new").write_text("another's")
    recovered(tmp_path)
    assert (tmp_path / "a").read_text() == "old"


def test_a_journal_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    journal = make_state_folder(tmp_path) / "journal.json"
    journal.mkdir()
    with pytest.raises(CannotRead):
        stopped_run(tmp_path)
    journal.rmdir()
    journal.write_text("{")
    with pytest.raises(Failed):
        stopped_run(tmp_path)


def test_a_new_folder_at_the_same_path_is_not_changed_by_an_old_journal(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    stopped(root, {"a": ("text", None)})
    root.rename(tmp_path / "before")
    root.mkdir()
    (root / "a").write_text("text")
    assert "another folder" in recovered(root)
    assert (root / "a").read_text() == "text"


def test_a_linked_workspace_file_stays_a_link(tmp_path: Path, victim: Path) -> None:
    root = tmp_path / "workspace"
    (root / "shared").mkdir(parents=True)
    (root / "shared/settings.toml").write_text("old")
    (root / "torchsmith.toml").symlink_to("shared/settings.toml")
    with writing(root, "test") as writer:
        writer.write([Change("rewrite", "torchsmith.toml", after="new")])
    assert (root / "torchsmith.toml").is_symlink()
    assert (root / "shared/settings.toml").read_text() == "new"
    (root / "torchsmith.toml").unlink()
    (root / "torchsmith.toml").symlink_to(victim)
    with writing(root, "test") as writer, pytest.raises(Problem, match="leads out"):
        writer.write([Change("rewrite", "torchsmith.toml", after="new")])
    assert victim.read_text() == "precious\n"


@pytest.mark.needs("nix")
@pytest.mark.parametrize("words", [*VERBS[2:], ("apply", "--dry-run")], ids=" ".join)
def test_a_dry_run_writes_and_recovers_nothing(
    place: Place, nix_here: Path, call: Call, words: tuple[str, ...]
) -> None:
    stopped(place.root, {"note": ("old", "new")})

    def everything() -> dict[str, bytes]:
        folders = (place.root, state_folder(place.root))
        return {
            str(file): file.read_bytes()
            for folder in folders
            for file in folder.rglob("*")
            if file.is_file() and ".git" not in file.parts
        }

    before = everything()
    call(*place.words(*words))
    assert everything() == before


def test_state_of_workspaces_that_are_gone_is_named(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHSMITH_STATE", str(tmp_path / "state"))
    for name in ("here", "gone"):
        (tmp_path / name).mkdir()
        make_state_folder(tmp_path / name)
    gone = state_folder(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    assert abandoned_states() == [gone]
    call("init", str(tmp_path / "b"))
    checks = json.loads(call("doctor", "--json", "-w", str(tmp_path / "b")).out)["checks"]
    assert [str(gone) in check["todo"] for check in checks if check["name"] == "old state"] == [True]


def test_each_user_has_records_and_the_lock_is_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchsmith.toml").touch()
    open_record(tmp_path).close()
    mine = state_folder(tmp_path)
    with writing(tmp_path, "mine"):
        monkeypatch.setenv("TORCHSMITH_STATE", str(tmp_path / "second"))
        assert state_folder(tmp_path) != mine
        with pytest.raises(Problem, match="in use"), writing(tmp_path, "theirs"):
            pass


def test_without_a_home_the_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHSMITH_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user whom nobody knows
    with pytest.raises(MissingRequirement) as refused:
        state_home()
    assert "TORCHSMITH_STATE" in refused.value.hint
    monkeypatch.delenv("TORCHSMITH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with pytest.raises(MissingRequirement) as refused:
        cache_dir()
    assert "TORCHSMITH_CACHE" in refused.value.hint
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(CannotWrite) as unwritable:
        make_state_folder(tmp_path)
    assert "TORCHSMITH_STATE" in unwritable.value.hint
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_home() == tmp_path / "state/torchsmith"


def test_doctor_tries_whether_the_pin_can_be_fetched(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHSMITH_NIXPKGS", raising=False)
    monkeypatch.setattr("torchsmith.nix.fetch.nixpkgs_address", lambda rev: f"http://127.0.0.1:9/{rev}")
    call("init", str(tmp_path / "b"))
    checks = json.loads(call("doctor", "--json", "-w", str(tmp_path / "b")).out)["checks"]
    assert [check["health"] for check in checks if check["name"] == "nixpkgs"] == ["warning"]
