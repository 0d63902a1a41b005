"""Real builds with real Nix: planned, run, killed, resumed, cached, refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.anybody import weakened
from tests.building.conftest import CELL, MINI, Place, title
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder
from torchsmith.publishing.verified import why_unverified
from torchsmith.record import open_record
from torchsmith.workspace.load import open_workspace

pytestmark = pytest.mark.needs("nix")


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("unbuilt")
def test_a_torch_and_its_companion_are_built_once_and_then_never_again(place: Place, call: Call) -> None:
    done = call(*place.words("build", "--json"))
    assert done.code == 0, done.err
    ended = [event for event in events(done.out) if event["kind"] == "job-ended"]
    assert {event["state"] for event in ended} == {"done"}
    names = [event["name"] for event in ended]
    assert names.index(place.torch) < names.index(place.vision)
    again = json.loads(call(*place.words("build", "--dry-run", "--json")).out)
    assert (again["jobs"], sorted(again["present"])) == ([], [place.torch, place.vision])


def test_everything_a_person_asks_after_a_build(place: Place, own_store: Path, call: Call) -> None:
    shown = json.loads(call(*place.words("build", "--dry-run", "--json")).out)
    assert {"magma", place.torch, place.vision} <= {job["name"].split("-2")[0] for job in shown["jobs"]}
    assert shown["present"] == []
    built = call(*place.words("build", place.torch))
    assert built.code == 0, built.err
    assert re.search(rf"{place.torch}: (\d+) of \1 steps", built.err), built.err
    status = call(*place.words("runs"))
    assert f"done    {place.torch}" in status.out
    output = next(line.strip() for line in status.out.splitlines() if line.strip().endswith(f"{CELL}-2.10.0"))
    assert Path(output).is_dir()
    assert (state_folder(place.root) / "results" / place.torch).resolve() == Path(output)
    record = open_record(place.root)
    noted = record.built(place.torch)
    assert noted is not None
    assert why_unverified(record, open_workspace(place.root), place.torch, noted) == "", (
        "what was built keeps the promise of its name"
    )
    assert record.built(place.vision) is None
    assert place.torch in call(*place.words("runs", "--history")).out
    assert "pythonImportsCheck: " in call(*place.words("runs", "log", place.torch)).out
    wrong = call(*place.words("runs", "log", place.torch + "x"))
    assert (wrong.code, place.torch in wrong.err) == (2, True)
    later = json.loads(call(*place.words("build", place.vision, "--dry-run", "--json")).out)
    assert [job["name"] for job in later["jobs"] if job["recipes"]] == [place.vision]


def test_a_build_that_fails_is_explained_and_the_rest_is_not_tried(
    place: Place, nix_here: Path, call: Call
) -> None:
    for name in (place.torch, place.vision):
        recipe = place.recipe(name)
        text = recipe.read_text()
        said = "echo 'c.cu: error: has no member named clockRate'; exit 1"
        bad = text.replace("mkdir -p cmake/Modules", said, 1)
        assert bad != text
        recipe.write_text(bad)
    done = call(*place.words("build"))
    assert done.code == 1
    assert title("cuda13-field") in done.err
    assert "c.cu: error: has no member named clockRate" in done.err  # the line of the log that tells
    states = {row.name: row.state for row in open_record(place.root).jobs(1)}
    assert (states[place.torch], states[place.vision]) == ("failed", "skipped")
    assert place.vision in done.err


def test_a_build_hook_that_is_not_there_is_told_at_once_and_not_waited_for(
    place: Place, own_store: Path, call: Call
) -> None:
    conf = own_store / "conf/nix.conf"
    conf.write_text(f"{conf.read_text()}build-hook = {own_store}/build-remote\n")
    done = call(*place.words("build", place.torch))
    if done.code == 0:
        return  # Nix 2.26 runs itself as its hook, whatever nix.conf says
    assert {job.attempts for job in open_record(place.root).jobs(1) if job.state == "failed"} == {1}
    assert title("build-hook") in done.err
    assert f"{own_store}/build-remote" in done.err


def started(place: Place, *more: str) -> subprocess.Popen[str]:
    words = ("build", "--json", "--workspace", str(place.root), "--nixpkgs", str(MINI), *more)
    return subprocess.Popen([sys.executable, "-m", "torchsmith", *words], stdout=subprocess.PIPE, text=True)


def until(child: subprocess.Popen[str], kind: str, name: str = "") -> None:
    assert child.stdout is not None
    for line in child.stdout:
        event = json.loads(line)
        if event["kind"] == kind and name in event.get("name", "") + event.get("job", ""):
            return
    pytest.fail(f"the build ended without {kind} {name}")


def test_kill_minus_nine_loses_nothing_and_repeats_nothing(place: Place, own_store: Path, call: Call) -> None:
    child = started(place)
    until(child, "steps", "pytorch")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert "killed" in call(*place.words("runs")).out
    done_before = [row.name for row in open_record(place.root).jobs(1) if row.state == "done"]
    assert any("magma" in name for name in done_before)
    resumed = call(*place.words("build"))
    assert resumed.code == 0, resumed.err
    again = [row.name for row in open_record(place.root).jobs(2)]
    assert not set(done_before) & set(again)


@pytest.mark.parametrize(
    "module", ["dataclasses", "torchsmith.core.problem", "torchsmith.cli.parser", "torchsmith.building.plan"]
)
def test_ctrl_c_while_modules_are_loaded_ends_with_130_too(module: str, place: Place, nix_here: Path) -> None:
    script = f"""
import builtins, os, signal, sys
from torchsmith.__main__ import main
real = builtins.__import__
def load(name, *rest):
    if name == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest)
builtins.__import__ = load
sys.argv = ["torchsmith", "build", "--dry-run", "-w", {str(place.root)!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


def test_ctrl_c_ends_with_130(place: Place, own_store: Path) -> None:
    child = started(place)
    until(child, "job-started")
    child.send_signal(signal.SIGINT)
    assert child.wait() == 130


def test_two_runs_of_one_workspace_exclude_each_other(place: Place, own_store: Path, call: Call) -> None:
    child = started(place)
    until(child, "job-started")
    second = call(*place.words("build"))
    assert (second.code, second.error) == (3, "busy")
    assert str(child.pid) in second.err
    os.kill(child.pid, signal.SIGTERM)
    child.wait()
    row = open_record(place.root).runs(1)[0]
    assert row.state == "stopped"
    assert "torchsmith build -w" in call(*place.words("runs")).err


def served(cache: Path) -> str:
    """The names of all paths that a binary cache on disk holds."""
    return " ".join(file.read_text().split("\n")[0] for file in cache.glob("*.narinfo"))


@pytest.mark.usefixtures("unbuilt")
def test_a_copy_that_failed_is_repeated_and_long_shared_builds_are_copied_too(
    place: Place, tmp_path: Path, call: Call
) -> None:
    cache = tmp_path / "served"
    cache.write_text("no folder, so nothing can be copied there")
    words = place.words("build", place.torch, "--cache", f"file://{cache}")
    first = call(*words)
    assert first.code == 1
    assert str(cache) in first.err
    cache.unlink()
    again = call(*words)
    assert again.code == 0, again.err
    assert "0 of 0 jobs done; 1 recipe there already or fetched" in again.err
    assert CELL in served(cache)
    assert "magma" in served(cache), "the next machine would build it again"


def test_a_plan_that_does_not_fit_is_refused_with_the_numbers(
    place: Place, own_store: Path, call: Call
) -> None:
    refused = call(*place.words("build", "--memory", "0.01"))
    assert (refused.code, refused.error, "memory" in refused.err) == (3, "missing-requirement", True)
    table = place.root / "catalog/estimates.toml"
    table.write_text(table.read_text().replace("store_gb = 0.001", "store_gb = 1e9"))
    refused = call(*place.words("build"))
    assert (refused.code, refused.error, "disk" in refused.err) == (3, "missing-requirement", True)
    assert open_record(place.root).runs() == []
    # The sample needs nothing near what a torch takes: trying it asks for no room.
    assert call(*place.words("build", "--dry-run", "--nixpkgs", "sample")).code == 0


@pytest.mark.parametrize(
    ("words", "error", "named"),
    [
        (("build", "--backend", "bazel"), "usage", "'bazel'"),
        (("build", "sm9000"), "not-known", "sm9000"),
        (("build", "--cache", "https://me:secret@example.invalid"), "invalid", "netrc"),
        (("build", "--sign", "/none"), "cannot-read", "/none"),
        (("build", "--jobs", "0"), "conflict", "[[builder]]"),
        (("runs", "log", "nothing"), "not-found", "nothing"),
        (("diagnose", "/none"), "not-found", "/none"),
    ],
)
def test_a_wrong_request_gets_one_clear_message(
    words: tuple[str, ...], error: str, named: str, place: Place, nix_here: Path, call: Call
) -> None:
    answer = call(*place.words(*words))
    assert (answer.code, answer.error) == (2, error)
    assert named in answer.err
    assert "secret" not in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["runs", "--history"],
        ["runs", "log"],
        *(["build", *dry, "--nixpkgs", str(MINI)] for dry in (["--dry-run"], [])),
    ],
)
def test_verbs_that_change_no_recipe_work_in_a_workspace_that_nobody_may_write(
    words: list[str], place: Place, nix_here: Path
) -> None:
    record = open_record(place.root)
    record.end_run(record.start_run("nix", []), "done")
    record.close()
    subprocess.run(["chmod", "-R", "a-w", place.root], check=True)
    try:
        done = subprocess.run(
            [*weakened(), sys.executable, "-m", "torchsmith", *place.words(*words)],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["chmod", "-R", "u+w", place.root], check=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


def broken_promise(place: Place) -> None:
    """Recipes whose torch is compiled for another GPU than their names say."""
    for name in (place.torch, place.vision):
        recipe = place.recipe(name)
        text = recipe.read_text()
        bad = text.replace('gpuArchSM = "12.1"', 'gpuArchSM = "8.9"').replace(
            'gpuArchSM = "9.0"', 'gpuArchSM = "8.9"'
        )
        assert bad != text
        recipe.write_text(bad)


@pytest.mark.usefixtures("unbuilt")
def test_verify_looks_at_what_was_built_and_at_what_was_there(place: Place, call: Call) -> None:
    built = call(*place.words("build", place.torch, "--verify", "--json"))
    assert built.code == 0, built.err
    told = [event for event in events(built.out) if event["kind"] == "verified"]
    assert told == [{"kind": "verified", "at": told[0]["at"], "name": place.torch, "ok": True}]
    output = str((state_folder(place.root) / "results" / place.torch).resolve())
    record = open_record(place.root)
    noted = record.built(place.torch)
    assert noted is not None
    verdict = record.verdict(output, noted.derivation, place.torch)
    assert verdict is not None
    assert verdict.ok
    record.close()
    shutil.rmtree(state_folder(place.root))  # a new record: nobody knows who built it
    there = call(*place.words("build", place.torch, "--verify"))
    assert there.code == 0, there.err
    assert f"{place.torch}: verified" in there.err
    assert "0 of 0 jobs done; 1 recipe there already or fetched" in there.err
    assert f"torchsmith verify {place.torch}" not in there.err, "that has been done"
    again = open_record(place.root).verdict(output, noted.derivation, place.torch)
    assert again is not None
    assert again.ok


def test_everything_in_a_cache_ends_realised_kept_recorded_and_verified_on_an_empty_store(
    place: Place, own_store: Path, tmp_path: Path, call: Call
) -> None:
    signed = ("--cache", f"file://{tmp_path}/served", "--sign", str(tmp_path / "secret"), "--json")
    words = place.words("build", *signed, "--verify")
    secret, public = tmp_path / "secret", tmp_path / "public"
    subprocess.run(["nix-store", "--generate-binary-cache-key", "k-1", secret, public], check=True)
    assert call(*words).code == 0
    for part in ("store", "var"):
        subprocess.run(["chmod", "-R", "u+w", own_store / part], check=True)
        shutil.rmtree(own_store / part)
    shutil.rmtree(state_folder(place.root))
    unverified = place.words("build", place.torch, *signed)
    plan = json.loads(call(*unverified, "--dry-run").out)
    assert (plan["fetched"], plan["jobs"]) == ([place.torch], [])
    assert call(*unverified).code == 0
    with closing(open_record(place.root)) as record:
        noted = record.built(place.torch)
        assert noted is not None, "whoever built it"
        assert (state_folder(place.root) / "results" / place.torch).resolve() == Path(noted.outputs[0])
        assert why_unverified(record, open_workspace(place.root), place.torch, noted) == ""
    fetched = call(*words)
    assert fetched.code == 0, fetched.err
    told = events(fetched.out)
    assert not [event for event in told if event["kind"] == "job-started"], "nothing is built"
    assert {event["name"] for event in told if event["kind"] == "verified"} == {place.torch, place.vision}
    record = open_record(place.root)
    for name in (place.torch, place.vision):
        link = state_folder(place.root) / "results" / name
        noted = record.built(name)
        assert noted is not None
        assert str(link.resolve()) == noted.outputs[0]
        assert link.resolve().is_dir()
        assert why_unverified(record, open_workspace(place.root), name, noted) == ""
    subprocess.run(["nix-store", "--gc"], check=True, capture_output=True)
    assert all((state_folder(place.root) / "results" / name).exists() for name in (place.torch, place.vision))


def test_what_breaks_the_promise_of_its_name_is_told_and_not_copied(
    place: Place, nix_here: Path, tmp_path: Path, call: Call
) -> None:
    broken_promise(place)
    words = place.words("build", place.torch, "--verify", "--cache", f"file://{tmp_path}/served")
    for _ in range(2):  # built, then there
        done = call(*words)
        assert done.code == 1
        assert re.search(f"{place.torch}.* verify does not accept it", done.err)
    assert CELL not in served(tmp_path / "served")
    assert "magma" in served(tmp_path / "served"), "it promised nothing"


def test_recipes_that_are_one_derivation_each_keep_it(place: Place, own_store: Path, call: Call) -> None:
    recipe = place.recipe(place.torch)
    twin = recipe.with_name("another-name.nix")
    twin.write_text(recipe.read_text())
    done = call(*place.words("build", place.torch, "another-name"))
    assert done.code == 0, done.err
    results = state_folder(place.root) / "results"
    assert (results / "another-name").resolve() == (results / place.torch).resolve()
    (results / place.torch).unlink()
    for more in results.glob(f"{place.torch}-*"):
        more.unlink()
    subprocess.run(["nix-store", "--gc"], check=True, capture_output=True)
    assert (results / "another-name").exists()
    assert open_record(place.root).built("another-name") is not None


def test_printed_commands_can_be_copied_where_the_path_has_a_space(
    place: Place, nix_here: Path, call: Call, tmp_path: Path
) -> None:
    root = tmp_path / "my builds"
    shutil.copytree(place.root, root, symlinks=True)
    made = call("init", str(tmp_path / "a b"))
    built = call("build", "-w", str(root))
    assert built.code == 0, built.err
    recipe = Place(root).recipe(place.vision)
    recipe.write_text(recipe.read_text().replace("installPhase", "exit 1; installPhase", 1))
    told = [made.err, built.err, call("build", "-w", str(root)).err, call("runs", "-w", str(root)).out]
    lines = [line for text in told for line in text.splitlines() if "torchsmith " in line and " -w " in line]
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(line[line.index("torchsmith ") :])
        assert Path(words[words.index("-w") + 1]).is_dir(), line


def test_a_source_that_fails_is_named_by_the_recipes_that_want_it(
    place: Place, nix_here: Path, call: Call
) -> None:
    wrong = f"sha256-{'A' * 43}="  # one that the miniature does not know for a real download's
    for name in (place.torch, place.vision):
        recipe = place.recipe(name)
        text, changes = re.subn(
            r'rev = "v\$\{version\}";(\s+)hash = "[^"]+"',
            rf'rev = "v99.${{version}}";\1hash = "{wrong}"',
            recipe.read_text(),
        )
        assert changes == 1
        recipe.write_text(text)
    done = call(*place.words("build"))
    assert done.code == 1
    failed = done.err[done.err.index("cause") :]
    assert place.torch in failed
    recipe = place.recipe(place.torch)
    recipe.write_text(recipe.read_text().replace('repo = "pytorch"', 'repo = "gone"'))
    learnt = call(*place.words("fix-hashes"))
    assert learnt.code == 3
    line = next(line for line in learnt.err.splitlines() if "could not be fetched" in line)
    assert place.torch in line
    assert "v99.2.10.0" in line
