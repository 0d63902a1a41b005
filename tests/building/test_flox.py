"""What torchsmith rests on when Flox builds. The same claims are made of a real flox if one is on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.building.conftest import Place, title
from tests.cli.conftest import Call
from torchsmith.building.backends import FloxBackend
from torchsmith.building.events import Event, JobSteps
from torchsmith.building.job import Job
from torchsmith.record import open_record

STAND_IN = Path(__file__).parent.parent / "flox/flox"
REAL = shutil.which("flox")
STEPS = "for i in 1 2 3; do echo [$i/3] compiling; done"  # the stand-in says them of every build
GOOD = f'{{ runCommand }}: runCommand "x" {{ outputs = [ "out" "dev" ]; }} "{STEPS}; mkdir $out $dev"\n'
BAD = '{ runCommand }: runCommand "x" { } "echo it fails; exit 1"\n'


@pytest.fixture(params=["stand-in", "real"] if REAL else ["stand-in"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FloxBackend:
    """Flox over a workspace with one repository that has one package."""
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("FLOX_STANDIN_STORE", str(tmp_path / "store"))
    repo = tmp_path / "builds"
    (repo / ".flox/env").mkdir(parents=True)
    (repo / ".flox/pkgs").mkdir()
    (repo / ".flox/env.json").write_text('{"name": "builds", "version": 1}')
    (repo / ".flox/env/manifest.toml").write_text("version = 1\n")
    subprocess.run(["git", "init", "--quiet", repo], check=True)
    write(repo, GOOD)
    return FloxBackend(tmp_path, STAND_IN if request.param == "stand-in" else Path(REAL or ""))


def write(repo: Path, text: str, name: str = "mine") -> None:
    (repo / f".flox/pkgs/{name}.nix").write_text(text)
    subprocess.run(["git", "-C", repo, "add", "."], check=True)


def job(name: str = "mine") -> Job:
    return Job(name, name, (name,), "other", False, "", recipes=(name,), repo="builds")


def test_a_build_is_told_by_its_links(backend: FloxBackend, tmp_path: Path) -> None:
    events: list[Event] = []
    outcome = backend.build(job(), 4, tmp_path / "log", events.append)
    assert outcome.ok
    assert Path(outcome.outputs[0]).name.endswith("mine") or REAL
    assert len(outcome.outputs) == 2, "the log beside them is no output"
    assert (tmp_path / "log").read_text()
    steps = [(event.done, event.total) for event in events if isinstance(event, JobSteps)]
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_failed_build_is_not_taken_for_the_old_one_whose_link_is_still_there(
    backend: FloxBackend, tmp_path: Path
) -> None:
    assert backend.build(job(), 4, tmp_path / "log", lambda _: None).ok
    write(tmp_path / "builds", BAD)
    assert backend.links(job()), "Flox leaves it"
    assert not backend.build(job(), 4, tmp_path / "log", lambda _: None).ok


def test_a_failed_build_leaves_the_log_of_the_one_before_and_ends_the_run(
    backend: FloxBackend, tmp_path: Path
) -> None:
    repo = tmp_path / "builds"
    assert backend.build(job(), 4, tmp_path / "log", lambda _: None).ok
    before = (repo / "result-mine-log").readlink()
    for name, text in (("a", GOOD), ("mine", BAD), ("z", GOOD)):
        write(repo, text, name)
    done = subprocess.run([backend.program, "build", "-d", repo, "a", "mine", "z"], capture_output=True)
    assert done.returncode == 1
    assert (repo / "result-mine-log").readlink() == before
    assert (repo / "result-a").is_symlink()
    assert not (repo / "result-z").is_symlink()


def test_a_change_that_is_not_committed_is_built(backend: FloxBackend, tmp_path: Path) -> None:
    first = backend.build(job(), 4, tmp_path / "log", lambda _: None)
    (tmp_path / "builds/.flox/pkgs/mine.nix").write_text(GOOD.replace("mkdir", "mkdir -p"))
    assert backend.build(job(), 4, tmp_path / "log", lambda _: None).outputs != first.outputs


def test_names_that_differ_in_a_dash_alone_cannot_both_be_built(backend: FloxBackend, tmp_path: Path) -> None:
    for name in ("x-y", "x_y"):
        write(tmp_path / "builds", GOOD, name)
    assert not backend.build(job("x-y"), 4, tmp_path / "log", lambda _: None).ok
    assert not (tmp_path / "builds/result-x_y-log").exists()


def test_a_package_that_git_does_not_know_cannot_be_built(backend: FloxBackend, tmp_path: Path) -> None:
    (tmp_path / "builds/.flox/pkgs/other.nix").write_text(GOOD)
    assert not backend.build(job("other"), 4, tmp_path / "log", lambda _: None).ok


def test_an_exit_code_after_a_finished_build_is_a_note_and_no_failure(
    backend: FloxBackend, tmp_path: Path
) -> None:
    if backend.program != STAND_IN:
        return  # a real flox cannot be told to do this
    write(tmp_path / "builds", GOOD + "# late\n")
    outcome = backend.build(job(), 4, tmp_path / "log", lambda _: None)
    assert outcome.ok
    assert "1" in outcome.note


def test_build_with_flox_as_a_person_does(
    place: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("FLOX_STANDIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FLOX_FLOXHUB_TOKEN", "very-secret-token")
    monkeypatch.setenv("PATH", str(STAND_IN.parent), prepend=os.pathsep)
    done = call(*place.words("build", "--backend", "flox"))
    assert done.code == 0, done.err
    assert done.err.index(f"{place.torch}: done") < done.err.index(f"{place.vision}: started")
    assert (place.root / f"build-pytorch/result-{place.torch}").is_symlink()
    rows = {row.name: row for row in open_record(place.root).jobs(1)}
    assert rows[place.torch].outputs[0].endswith(place.torch)
    recipe = place.recipe(place.vision)
    recipe.write_text(recipe.read_text() + "# fails\n")
    failed = call(*place.words("build", "--backend", "flox", place.vision))
    assert failed.code == 1
    assert title("cuda13-field") in failed.err


def test_without_flox_the_backend_says_what_to_do(
    place: Place, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    answer = call(*place.words("build", "--backend", "flox"))
    assert (answer.code, "--backend nix" in answer.err) == (3, True)
