"""A set of files is written as a whole or not at all, wherever they are and whenever the run is killed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from torchsmith.core.problem import Problem, Refused
from torchsmith.core.state import make_state_folder, state_folder
from torchsmith.edit.pin import Move, propose
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.plan import ChangeReport, PlanRequest, plan
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import FileStep, Journal, stopped_halfway, writing
from torchsmith.workspace.load import open_workspace

KILLS = 50
DRAFT = "*.torchsmith-new"
MOMENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "subprocess.Popen")
OLD, NEW = "6a030d535719c5190187c4cec156f335e95e3211", "1" * 40
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm90", "sm120"]
isa = ["avx2", "avx512"]
"""


def killed_after(moments: int, root: Path, work: Callable[[], object]) -> bool:
    """Do work in a process of its own that is killed when it has touched files or started a program so many
    times; False if it ended before."""
    child = os.fork()
    if child == 0:
        left = moments
        own = str(root)

        def watch(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            if event in MOMENTS and (event == "subprocess.Popen" or own in str(args[0])):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def moments_of(root: Path, work: Callable[[], object]) -> int:
    """How often work touches files or starts a program: the least number after which it is not killed."""
    low, high = 0, 4096
    while low < high:
        middle = (low + high) // 2
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(state_folder(root), ignore_errors=True)
        shutil.copytree(root.with_name("master"), root, symlinks=True)
        if killed_after(middle, root, work):
            low = middle + 1
        else:
            high = middle
    return low


def texts(root: Path) -> dict[str, str]:
    files = [*root.glob("catalog/*"), *root.glob("build-*/**/*")]
    return {
        str(one.relative_to(root)): one.read_text()
        for one in files
        if one.is_file() and ".git/" not in str(one)
    }


def git(repo: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", repo, *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def master(tmp_path: Path) -> Path:
    root = tmp_path / "master"
    root.mkdir()
    (root / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=root, git=False))
    return root


@pytest.mark.long
def test_a_killed_apply_moves_every_recipe_or_none(master: Path) -> None:
    root = master.with_name("workspace")
    propose(open_workspace(master), Move("2.10", rev=NEW)).write("line update", 0)

    def work() -> object:
        return apply(ApplyRequest(workspace=root, git=False))

    before = texts(master)
    last = moments_of(root, work)
    shutil.rmtree(root)
    shutil.copytree(master, root)
    work()
    after = texts(root)
    assert any(NEW in text for text in after.values())
    dice = random.Random(5)
    outcomes = []
    for _ in range(KILLS):
        shutil.rmtree(root)
        shutil.copytree(master, root)
        assert killed_after(dice.randrange(last), root, work)
        with writing(root, "test") as writer:
            assert writer.commits == []
        found = texts(root)
        assert found in (before, after), sorted(path for path in found if found[path] not in before.values())
        assert not list(root.rglob(DRAFT))
        outcomes.append((found == after, writer.recovered))
    assert {moved for moved, _ in outcomes} == {True, False}
    assert any("finished" in said for moved, said in outcomes if moved)
    assert any("nothing" in said for moved, said in outcomes if not moved)


@pytest.fixture
def drifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of other hands, committed, and a workspace file that asks for more and for less."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Maintainer")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "maintainer@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-01-01T00:00:00Z")
    root = tmp_path / "master"
    pkgs = root / "build-pytorch/.flox/pkgs"
    pkgs.mkdir(parents=True)
    for file in (Path(__file__).parent.parent / "edit/by-hand").glob("*.nix"):
        shutil.copy(file, pkgs)
    git(root / "build-pytorch", "init", "--quiet", "--initial-branch=main")
    git(root / "build-pytorch", "add", "--all")
    git(root / "build-pytorch", "commit", "--quiet", "--message", "By hand")
    wanted = 'python = ["3.13"]\ncuda = ["13.0", "cpu"]\nsm = ["sm110", "sm121"]\nisa = ["avx2", "armv9"]\n'
    (root / "torchsmith.toml").write_text(f'format = 1\npackages = ["pytorch"]\n[[matrix]]\n{wanted}')
    return root


@pytest.mark.long
def test_a_killed_apply_goes_on_phase_by_phase_with_the_same_commits(drifted: Path) -> None:
    root = drifted.with_name("workspace")
    repo = root / "build-pytorch"

    def work() -> object:
        return apply(ApplyRequest(workspace=root, adopt=("all",), yes=True, commit=True))

    def log() -> list[str]:
        return git(repo, "log", "--format=%s %T").splitlines()

    last = moments_of(root, work)
    shutil.rmtree(root)
    shutil.copytree(drifted, root)
    work()
    undisturbed, tree = log(), texts(root)
    assert len(undisturbed) == 6
    dice = random.Random(7)
    finished = 0
    for _ in range(KILLS):
        shutil.rmtree(root)
        shutil.copytree(drifted, root)
        assert killed_after(dice.randrange(last), root, work)
        with writing(root, "apply") as writer:
            finished += "was finished first" in writer.recovered
        assert git(repo, "status", "--porcelain") == "", "a phase is whole and committed, or not begun"
        made = log()
        assert made == undisturbed[-len(made) :]
        work()
        assert log() == undisturbed
        assert texts(root) == tree
        assert not list(root.rglob(DRAFT))
    assert finished > KILLS // 10


def killed_at(event: str, word: str, count: int, work: Callable[[], object]) -> None:
    """Do work in a process of its own that is killed before the last of so many events with a word: in the
    path of a file, or among the arguments of a program."""
    child = os.fork()
    if child == 0:
        left = count

        def watch(happened: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            if happened == event and word in (args[1] if event == "subprocess.Popen" else str(args[0])):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize(
    ("event", "word", "count", "gone"),
    [
        ("os.remove", "/.flox/pkgs/pytorch", 1, 0),
        ("os.remove", "/.flox/pkgs/pytorch", 3, 2),
        ("subprocess.Popen", "add", 1, 3),
        ("subprocess.Popen", "commit", 1, 3),
    ],
)
def test_the_deletions_of_a_killed_apply_are_planned_and_need_agreement(
    drifted: Path, event: str, word: str, count: int, gone: int
) -> None:
    repo, deleted = drifted / "build-pytorch", "build-pytorch: delete 3 recipes"

    def log() -> list[str]:
        return git(repo, "log", "--format=%s").splitlines()

    def recipes() -> int:
        return len(list(repo.glob(".flox/pkgs/*.nix")))

    before = recipes()
    adopt = ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True)
    killed_at(event, word, count, lambda: apply(adopt))
    assert (recipes(), log()) == (before - gone, ["By hand"])
    stopped = plan(PlanRequest(workspace=drifted)).stopped
    assert stopped is not None
    assert (stopped.verb, set(stopped.files.values()), len(stopped.files)) == ("apply", {"delete"}, 3)
    assert [subject[: len(deleted)] for subject in stopped.commits] == [deleted]
    with pytest.raises(Refused, match="3 files would be deleted"):
        apply(ApplyRequest(workspace=drifted, commit=True))
    with pytest.raises(Refused), writing(drifted, "line update"):
        pass
    assert (recipes(), log()) == (before - gone, ["By hand"]), "nothing is finished unasked"
    asked: list[list[str]] = []

    def agree(report: ChangeReport) -> bool:
        asked.append(sorted(report.deleted))
        return True

    apply(ApplyRequest(workspace=drifted, commit=True), confirm=agree)
    assert asked == [sorted(stopped.files)]
    assert log()[-2].startswith(deleted)
    assert plan(PlanRequest(workspace=drifted)).stopped is None


def test_what_a_killed_apply_leaves_to_delete_is_not_committed_unless_it_was_to_commit(
    drifted: Path,
) -> None:
    adopt = ApplyRequest(workspace=drifted, adopt=("all",), yes=True)
    killed_at("os.remove", "/.flox/pkgs/pytorch", 2, lambda: apply(adopt))
    with pytest.raises(Refused, match=r"the deletion of build-pytorch/.*\.nix is not committed"):
        apply(ApplyRequest(workspace=drifted, commit=True, yes=True))
    assert git(drifted / "build-pytorch", "log", "--format=%s").splitlines() == ["By hand"]


def test_a_set_with_a_file_outside_of_the_workspace_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    for path in ("../outside", str(tmp_path / "outside")):
        with writing(root, "test") as writer, pytest.raises(Problem, match="leads out"):
            writer.write([Change("create", name, after="new") for name in ("inside", path)])
    assert not (root / "inside").exists()
    assert not (tmp_path / "outside").exists()


def test_a_folder_goes_with_its_last_file_and_not_before(tmp_path: Path) -> None:
    for name in ("one/a", "two/a", "two/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old")
    with writing(tmp_path, "test") as writer:
        writer.write([Change("delete", name, before="old") for name in ("one/a", "two/a")])
    assert not (tmp_path / "one").exists()
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["b"]


def _own_mounts() -> list[str]:
    """A command in front of another that lets it mount: as root, by sudo, or in a name space of users."""
    for words in (["unshare", "-m"], ["sudo", "-n", "unshare", "-m"], ["unshare", "-Urm"]):
        if shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    pytest.skip("this machine lets nobody mount")


@pytest.mark.needs("mounts")
def test_apply_changes_repositories_that_are_mounts_of_their_own(master: Path) -> None:
    """In a name space of its own: one repository a tmpfs, another the same file system mounted once more."""
    vision, audio = master / "build-torchvision", master / "build-torchaudio"
    program = Path(sys.executable).with_name("torchsmith")
    script = f"""set -e
        cp -r {vision} {master}/kept
        mount -t tmpfs tmpfs {vision} && cp -r {master}/kept/. {vision}
        mount --bind {audio} {audio}
        {program} line update 2.10 -w {master} --rev {NEW} && {program} apply --no-git -w {master}
        ! grep -rl {OLD} {master}/build-*
        grep -rl {NEW} {vision} {audio} | wc -l"""
    done = subprocess.run([*_own_mounts(), "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 2


def test_what_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "file").write_text("no folder")
    changes = [Change("rewrite", "a", after="new"), Change("create", "file/b", after="new")]
    with writing(tmp_path, "test") as writer, pytest.raises(Problem, match="file/b"):
        writer.write(changes)
    assert (tmp_path / "a").read_text() == "old"
    assert not list(tmp_path.rglob(f".{DRAFT}"))
    assert not (state_folder(tmp_path) / "journal.json").exists()


def test_an_edit_made_after_the_stop_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def work() -> None:
        with writing(tmp_path, "test") as writer:
            writer.write([Change("rewrite", name, after="new") for name in ("a", "b", "c")])

    for moments in range(200):
        killed_after(moments, tmp_path, work)
        journal = state_folder(tmp_path) / "journal.json"
        if journal.exists() and '"decided":true' in journal.read_text():
            break
    (tmp_path / "a").write_text("by hand")
    os.utime(tmp_path / "a", (0, 0))  # whatever the clock says
    with writing(tmp_path, "next") as writer:
        pass
    assert writer.recovered.endswith(": a")
    assert [(tmp_path / name).read_text() for name in ("a", "b", "c")] == ["by hand", "new", "new"]


def test_a_workspace_that_a_stop_left_unreadable_is_finished_when_it_is_opened(tmp_path: Path) -> None:
    whole = 'format = 1\nprofile = "seed"\n'
    (tmp_path / "torchsmith.toml").write_text("[")
    (tmp_path / ".torchsmith.toml.torchsmith-new").write_text(whole)
    with pytest.raises(Problem):
        open_workspace(tmp_path)
    text = (tmp_path / "torchsmith.toml").read_text()
    step = FileStep(*(hashlib.sha256(part.encode()).hexdigest() for part in (text, whole)))
    inode = tmp_path.stat().st_ino
    journal = Journal(verb="pin", folder=inode, decided=True, files={"torchsmith.toml": step})
    make_state_folder(tmp_path)
    (state_folder(tmp_path) / "journal.json").write_bytes(msgspec.json.encode(journal))
    with pytest.raises(Problem) as refused:
        open_workspace(tmp_path)
    assert "torchsmith apply" in refused.value.hint, "whoever only reads recovers nothing"
    assert open_workspace(tmp_path, recover=True).profile == "seed"
    assert not stopped_halfway(tmp_path)
