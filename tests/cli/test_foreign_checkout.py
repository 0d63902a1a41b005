"""A checkout from elsewhere: its programs do not run, and it writes text alone to the terminal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.building.conftest import Place
from tests.building.conftest import _pattern as _pattern
from tests.building.conftest import _store as _store
from tests.building.conftest import nix_here as nix_here
from tests.building.conftest import place as place
from tests.building.test_flox import STAND_IN
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder
from torchsmith.record import JobRow, open_record


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a verb writes to the working directory is not written into a clone."""
    monkeypatch.chdir(tmp_path)


HOSTILE = "evil\x1b]0;title\x07\x1b[2J\r\n0 errors\u202e"
PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "diff.external"),
    *("diff.theirs.command", "diff.theirs.textconv", "filter.theirs.clean", "filter.theirs.smudge"),
    *("filter.theirs.process", "gpg.program", "credential.helper", "hook.theirs.command"),
)
VERBS = (
    ("audit",),
    ("eval",),
    ("eval", "--graph"),
    ("build", "--dry-run"),
    ("page",),
    ("align",),
    ("plan",),
    ("impact",),
    ("publish", "--org", "us", "--dry-run"),
)


@pytest.mark.needs("nix")
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_verb_starts_a_program_that_the_checkout_names(
    place: Place,
    nix_here: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str],
) -> None:
    monkeypatch.setenv("PATH", str(STAND_IN.parent), prepend=os.pathsep)
    program, ran = tmp_path / "program", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\n")
    program.chmod(0o755)
    for repo in (place.root / "build-pytorch", place.root / "build-torchvision"):
        subprocess.run(["git", "-C", repo, "commit", "--quiet", "--message", "all"], check=True)
        for key in PROGRAMS:
            subprocess.run(["git", "-C", repo, "config", key, program], check=True)
        (repo / ".git/info/attributes").write_text("*.nix filter=theirs diff=theirs\n")
        for hook in ("pre-commit", "post-index-change", "reference-transaction"):
            (repo / ".git/hooks").mkdir(exist_ok=True)
            (repo / ".git/hooks" / hook).symlink_to(program)
    place.recipe(place.torch).touch()
    call(*place.words(*words))
    assert not ran.exists()


def test_a_variable_that_names_another_repository_does_not_reach_git(
    place: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", other], check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert call(*place.words("apply", "--yes", "--commit")).code == 0
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    listing = subprocess.run(["git", "-C", other, "for-each-ref"], capture_output=True, check=True)
    assert listing.stdout == b""


@pytest.fixture
def hostile(place: Place) -> Place:
    """A workspace with a recipe whose name and whose error hold what a terminal obeys."""
    pkgs = place.root / "build-pytorch/.flox/pkgs"
    text = place.recipe(place.torch).read_text()
    (pkgs / f"{HOSTILE}.nix").write_text(
        text.replace("sm90", "sm\x1b[31m90").replace("sm121", "sm\x1b[31m121")
    )
    (pkgs / "thrower.nix").write_text('{ }: throw "\x1b]0;title\x07 stop\r\x1b[2J"\n')
    subprocess.run(["git", "-C", place.root / "build-pytorch", "add", "."], check=True)
    return place


def controls(text: str) -> set[str]:
    return {sign for sign in text if not sign.isprintable()} - {"\n"}


@pytest.mark.needs("nix")
@pytest.mark.parametrize("words", VERBS[:-2], ids=" ".join)
def test_what_others_wrote_is_printed_as_text(
    hostile: Place, nix_here: Path, call: Call, words: tuple[str]
) -> None:
    answer = call(*hostile.words(*words))
    assert controls(answer.out + answer.err) == set()
    assert "\n0 errors" not in answer.out + answer.err


@pytest.mark.needs("nix")
@pytest.mark.parametrize("format", ["json", "sarif", "github"])
def test_reports_stay_well_formed(hostile: Place, call: Call, format: str) -> None:
    answer = call("audit", str(hostile.root), "--format", format)
    assert controls(answer.out) <= {"\t"}
    assert "evil\\x1b" in answer.out.replace("\\\\", "\\").replace("%5C", "\\")
    if format in ("json", "sarif"):
        json.loads(answer.out)


def test_colours_are_ours_alone(
    hostile: Place, call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchsmith.cli.console import paint, write

    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    write(paint("ours ", "bold red") + "\x1b[2J\x1b[8mtheirs\x1b]8;;http://x\x07")
    assert capsys.readouterr().out == "\x1b[1;31mours \x1b[0m\\x1b[2J\\x1b[8mtheirs\\x1b]8;;http://x\\x07\n"


def test_a_file_name_that_is_no_text_is_told_all_the_same(place: Place, call: Call) -> None:
    folder = place.root / "build-pytorch/.flox/pkgs"
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.nix")).write_text("{ }: 1")
    subprocess.run(["git", "-C", place.root / "build-pytorch", "add", "."], check=True)
    for words in (("--json",), ()):
        answer = call("audit", str(place.root), *words)
        assert "\\udcff" in answer.out.replace("\\\\", "\\")


@pytest.mark.parametrize("way", ["absolute", "upwards", "link"])
def test_log_prints_no_file_but_the_workspace_s_own(
    place: Place, tmp_path: Path, call: Call, way: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private key\n")
    logs = state_folder(place.root) / "logs"
    logs.mkdir(parents=True)
    (logs / "link.log").symlink_to(secret)
    paths = {"absolute": secret, "upwards": logs / "../../../secret", "link": logs / "link.log"}
    record = open_record(place.root)
    number = record.start_run("nix", ())
    record.add_jobs(
        [
            JobRow(
                run=number,
                key="key",
                name="torch",
                attempts=1,
                package="pytorch",
                gpu=True,
                system="x",
                targets=(),
                state="failed",
                started=1.0,
                log=str(paths[way]),
            )
        ]
    )
    for words in (("runs", "log"), ("diagnose",)):
        answer = call(*place.words(*words, "torch"))
        assert answer.error == "not-found"
        assert "private" not in answer.out + answer.err
