"""apply deletes nothing before the user agreed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.core.problem import Refused
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.plan import ChangeReport

TOML = """format = 1
packages = ["pytorch"]
[[matrix]]
python = ["3.13"]
cuda = ["cpu"]
isa = ["avx2", "avx512"]
"""
GONE = "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx512.nix"


@pytest.fixture
def smaller(tmp_path: Path) -> Path:
    """A workspace that asks for one recipe fewer than it holds."""
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, commit=True))
    (tmp_path / "torchsmith.toml").write_text(TOML.replace(', "avx512"', ""))
    return tmp_path


def answered(answer: str, *words: str) -> tuple[int, str]:
    """The exit code of a command on a terminal on which an answer is typed, and what it showed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "torchsmith", *words])
    shown = b""
    asked = False
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other side is gone
            break
        if not part:
            break
        shown += part
        if not asked and b"[y/N]" in shown:
            os.write(terminal, answer.encode() + b"\n")
            asked = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert asked
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_without_a_terminal_nothing_is_deleted_unless_told(smaller: Path, call: Call) -> None:
    words = ("apply", "-w", str(smaller))
    refused = call(*words, "--json")
    assert (refused.code, refused.error) == (1, "refused")
    assert "recipes: 1 to delete, 1 up to date" in " ".join(refused.err.split())
    assert (smaller / GONE).is_file()
    told = call(*words, "--yes", "--json")
    assert told.code == 0
    assert [row["path"] for row in json.loads(told.out)["changes"] if row["kind"] == "delete"] == [GONE]
    assert not (smaller / GONE).exists()


@pytest.mark.parametrize(("answer", "code", "there"), [("n", 1, True), ("", 1, True), ("y", 0, False)])
def test_on_a_terminal_it_asks(answer: str, code: int, there: bool, smaller: Path) -> None:
    ended, shown = answered(answer, "apply", "-w", str(smaller))
    assert ended == code
    before, _, after = (
        " ".join(part.split()) for part in shown.partition("[y/N]")
    )  # a terminal breaks lines
    assert before.index(Path(GONE).name) < before.index("1 to delete")  # what is asked is beside the counts
    assert ("nothing was written" in after) is there
    assert (smaller / GONE).is_file() is there


def test_a_file_that_was_edited_by_hand_is_named(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    assert call("apply", "-w", str(tmp_path)).code == 0
    with (tmp_path / GONE).open("a") as file:
        file.write("( 1\n")
    applied = call("apply", "-w", str(tmp_path))
    assert applied.code == 1
    assert f"{GONE} would rewrite (needs --adopt): broken, edited by hand: " in " ".join(applied.err.split())


def test_what_deletes_nothing_asks_nothing(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    assert call("apply", "-w", str(tmp_path)).code == 0
    assert call("apply", "-w", str(tmp_path)).code == 0


def test_programs_agree_by_their_request_or_by_a_function(smaller: Path) -> None:
    with pytest.raises(Refused):
        apply(ApplyRequest(workspace=smaller))
    with pytest.raises(Refused):
        apply(ApplyRequest(workspace=smaller), confirm=lambda report: False)
    shown: list[ChangeReport] = []

    def agree(report: ChangeReport) -> bool:
        shown.append(report)
        return True

    assert apply(ApplyRequest(workspace=smaller), confirm=agree).written
    assert [change.path for change in shown[0].pending if change.kind == "delete"] == [GONE]
    assert not (smaller / GONE).exists()


def test_recipes_of_a_package_that_is_no_longer_asked_for_are_deleted_if_they_were_written_here(
    tmp_path: Path, call: Call
) -> None:
    toml = tmp_path / "torchsmith.toml"
    toml.write_text(TOML.replace('["pytorch"]', '["pytorch", "torchaudio"]'))
    assert call("apply", "-w", tmp_path).code == 0
    shutil.copytree(tmp_path / "build-torchaudio", tmp_path / "kept")
    assert call("package", "remove", "torchaudio", "-w", tmp_path).code == 0
    recipes = [*tmp_path.glob("build-torchaudio/.flox/pkgs/*.nix")]
    assert len(recipes) == 2
    assert call("apply", "-w", tmp_path, "--yes").code == 0
    assert not any(recipe.exists() for recipe in recipes)
    assert len([*tmp_path.glob("kept/.flox/pkgs/*.nix")]) == 2, "a copy of a repository is not torchsmith's"
    assert call("apply", "-w", tmp_path, "--check").code == 0


@pytest.fixture
def without_audio(tmp_path: Path, call: Call) -> Path:
    """A workspace that no longer asks for a package, whose repository is committed."""
    (tmp_path / "torchsmith.toml").write_text(TOML.replace('["pytorch"]', '["pytorch", "torchaudio"]'))
    assert call("apply", "-w", tmp_path, "--commit").code == 0
    assert call("package", "remove", "torchaudio", "-w", tmp_path).code == 0
    return tmp_path


def test_of_a_package_that_was_removed_only_the_history_is_left(without_audio: Path, call: Call) -> None:
    repo = without_audio / "build-torchaudio"
    assert call("apply", "-w", without_audio, "--yes").code == 0
    assert call("apply", "-w", without_audio, "--commit").code == 0
    assert (git(repo, "ls-files"), git(repo, "status", "--porcelain")) == ("", "")
    assert [path.name for path in repo.iterdir()] == [".git"]


def test_an_edited_file_of_a_package_that_was_removed_is_named_by_every_plan(
    without_audio: Path, call: Call
) -> None:
    page = "build-torchaudio/README.md"
    (without_audio / page).write_text((without_audio / page).read_text() + "mine\n")
    for words in (("--yes", "--commit", "--allow-dirty"), ("--commit",)):
        call("apply", "-w", without_audio, *words)
        skipped = json.loads(call("plan", "-w", without_audio, "--json").out)["changes"]
        assert [change["path"] for change in skipped if change["skipped"]] == [page]
    assert call("apply", "-w", without_audio, "--yes", "--adopt", page).code == 0
    assert not (without_audio / page).exists()


@pytest.mark.parametrize("name", ["env.json", "env/manifest.toml", "pkgs/mine.nix"])
def test_a_flox_environment_with_something_of_the_users_stays_whole(
    name: str, without_audio: Path, call: Call
) -> None:
    flox = without_audio / "build-torchaudio/.flox"
    (flox / name).write_text("{ hello }: hello")
    call("apply", "-w", without_audio, "--yes")
    assert not [*flox.glob("pkgs/torchaudio*")]
    assert all((flox / file).exists() for file in (name, "env.json", "env/manifest.toml", ".gitignore"))


def git(repo: Path, *words: str, check: bool = True) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=y", "-c", "core.editor=true")
    argv = ["git", "-C", str(repo), *identity, *words]
    return subprocess.run(argv, check=check, capture_output=True, text=True).stdout


@pytest.mark.parametrize("verb", ["merge", "cherry-pick", "rebase"])
def test_nothing_is_written_while_a_merge_is_in_progress(verb: str, smaller: Path, call: Call) -> None:
    repo, page = smaller / "build-pytorch", smaller / "build-pytorch/README.md"
    git(repo, "branch", "other")
    page.write_text("mine")
    git(repo, "commit", "-qam", "mine")
    git(repo, "switch", "-q", "other")
    page.write_text("theirs")
    git(repo, "commit", "-qam", "theirs")
    git(repo, verb, "main", check=False)
    before = git(repo, "status", "--porcelain")
    for words in ((), ("--commit", "--allow-dirty", "--adopt", "all")):
        refused = call("apply", "-w", str(smaller), "--yes", *words)
        assert (refused.code, refused.error) == (1, "refused")
        assert f"a {verb} is in progress in {repo}" in refused.err
    assert git(repo, "status", "--porcelain") == before
    git(repo, verb, "--abort")
    assert call("apply", "-w", str(smaller), "--yes").code == 0


def test_the_advice_for_a_file_that_is_not_committed_works(smaller: Path, call: Call) -> None:
    (smaller / "build-pytorch/notes.txt").write_text("mine")
    refused = call("apply", "-w", str(smaller), "--commit", "--yes")
    assert (refused.code, refused.error) == (1, "refused")
    assert "git stash --include-untracked" in refused.err
    git(smaller / "build-pytorch", "stash", "--include-untracked")
    assert call("apply", "-w", str(smaller), "--commit", "--yes").code == 0


def test_only_files_that_torchsmith_wrote_are_staged(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    (tmp_path / "build-pytorch").mkdir()
    for name in ("README.md", "default.nix"):
        (tmp_path / "build-pytorch" / name).write_text("{ }\n")
    assert call("apply", "-w", str(tmp_path)).code == 0
    untracked = git(tmp_path / "build-pytorch", "ls-files", "--others").split()
    assert untracked == ["README.md", "default.nix"]


def test_a_recipe_that_cannot_be_read_is_counted_as_broken(smaller: Path, call: Call) -> None:
    (smaller / GONE).write_text("( 1\n")
    applied = call("apply", "-w", str(smaller))
    assert applied.code == 1
    assert "recipes: 1 broken, 1 up to date" in " ".join(applied.err.split())
