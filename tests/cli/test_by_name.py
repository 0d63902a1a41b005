"""A cell's name leads to its last build and that build's log."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.artifact import standin
from tests.cli.conftest import Call
from torchsmith.building.report import BuildReport
from torchsmith.core.state import state_folder
from torchsmith.nix.errors import Cause
from torchsmith.record import Attempt, Built, JobRow, open_record
from torchsmith.verbs.build import BuildRequest, print_end

NAME = "pytorch-python313-cuda13_0-sm120-avx512"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
    return tmp_path


def test_verify_takes_the_name_of_what_was_built(place: Path, call: Call) -> None:
    output = standin.build(place / "out")
    words = ("verify", NAME, "--json", "--no-cpu", "-w", str(place))
    assert (call(*words).code, "torchsmith build" in call(*words).err) == (3, True)
    record = open_record(place)
    record.note_built(Built(name=NAME, outputs=(str(output),)))
    record.close()
    by_record = json.loads(call(*words).out)
    results = state_folder(place) / "results"
    results.mkdir()
    (results / NAME).symlink_to(output)
    by_link = json.loads(call(*words).out)
    for one in (by_record, by_link):
        assert one["report"]["checks"] == by_record["report"]["checks"] != []


def test_verify_takes_a_selector_of_one_build(tmp_path: Path, call: Call) -> None:
    assert call("init", tmp_path, "--for", "RTX 4090").code == 0
    assert call("apply", "--no-git", "-w", tmp_path).code == 0
    names = call("list", "--names", "sm89", "-w", tmp_path).out.split()
    refused = call("verify", names[0], "-w", tmp_path)
    assert (refused.code, refused.error) == (3, "not-built")
    assert f"torchsmith build {names[0]}" in refused.err
    assert call("verify", "sm89", "-w", tmp_path).error == "not-built"
    for word in ("cuda13_0-sm89-avx2", f"{names[0]}x"):
        unknown = call("verify", word, "-w", tmp_path)
        assert (unknown.code, unknown.error) == (2, "not-found")
        assert "torchsmith build" not in unknown.err
    output = standin.build(tmp_path / "out")
    for name in names[:2]:
        record = open_record(tmp_path)
        record.note_built(Built(name=name, outputs=(str(output),)))
        record.close()
        answer = call("verify", "sm89", "--no-cpu", "--json", "-w", tmp_path)
        if name == names[0]:
            assert json.loads(answer.out)["report"]["path"] == str(output)
    assert (answer.code, answer.error) == (2, "conflict")


@pytest.mark.needs("nix")
def test_a_result_in_a_store_of_our_own_is_verified_and_not_run(
    place: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place / "own/store/nix/store"
    store.mkdir(parents=True)
    standin.build(store / "0000-pytorch")
    monkeypatch.setenv("TORCHSMITH_CACHE", str(place / "own"))
    monkeypatch.setattr("torchsmith.nix.tool._usable_store", lambda: f"local?root={place / 'own/store'}")
    record = open_record(place)
    record.note_built(Built(name=NAME, outputs=("/nix/store/0000-pytorch",)))
    record.close()
    judged = json.loads(call("verify", NAME, "-w", str(place), "--json").out)
    assert judged["report"]["path"] == str(store / "0000-pytorch")
    refused = call("test", NAME, "-w", str(place), "--json")
    assert (refused.code, refused.error) == (3, "missing-requirement")


def test_a_build_that_is_gone_is_named_without_nix_too(
    place: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = open_record(place)
    record.note_built(Built(name=NAME, outputs=("/nix/store/0000-gone",)))
    record.close()
    monkeypatch.setenv("PATH", str(place))
    assert "/nix/store/0000-gone" in call("verify", NAME, "-w", str(place)).err


def test_diagnose_takes_the_name_of_a_job(place: Path, call: Call) -> None:
    log = state_folder(place) / "logs/1/job.log"
    log.parent.mkdir(parents=True)
    log.write_text("c++: fatal error: Killed signal terminated program cc1plus\n")
    words = ("diagnose", NAME, "--json", "-w", str(place))
    assert "has never been built here" in call(*words).out
    assert "there is no file nosuch.log" in call("diagnose", "nosuch.log", "-w", str(place)).err
    record = open_record(place)
    run = record.start_run("nix", ())
    record.add_jobs(
        [
            JobRow(
                run=run,
                key="k",
                name=NAME,
                package="pytorch",
                gpu=True,
                system="x86_64-linux",
                targets=("k",),
                state="waiting",
                log=str(log),
            )
        ]
    )
    record.job_started(run, "k", 1)
    record.job_ended(run, "k", Attempt(state="failed", error="memory"))
    record.close()
    told = json.loads(call(*words).out)
    assert (told["format"], told["entry"]) == (3, "out-of-memory")
    record = open_record(place)
    later = record.start_run("nix", ())
    (row,) = record.jobs(run)
    below = {"run": later, "state": "waiting", "attempts": 0}
    record.add_jobs(
        [msgspec.structs.replace(row, **below), msgspec.structs.replace(row, key="m", name="magma", **below)]
    )
    record.job_started(later, "m", 1)
    record.job_ended(later, "m", Attempt(state="failed", error="compile"))
    record.job_ended(later, "k", Attempt(state="skipped", error="needs magma, which failed"))
    record.close()
    skipped = call(*words)
    assert (skipped.code, skipped.error) == (2, "not-found")
    assert "diagnose magma" in skipped.out
    record = open_record(place)
    record.job_started(later, "k", 1)
    record.job_ended(later, "k", Attempt(state="failed", error="memory"))
    record.close()
    log.write_text("\n")
    assert call(*words).error == "empty"
    log.unlink()
    assert call(*words).error == "not-found"


def test_a_build_ends_with_its_results_and_the_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    (place / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\norg = "acme"\n')
    links = {f"n{number}": tmp_path / f"n{number}" for number in range(8)}
    for link in links.values():
        link.symlink_to(tmp_path)
    print_end(BuildReport("done", results=links), BuildRequest(workspace=place))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines if line.endswith(f" {tmp_path}")][-1] == "2"
    assert [line.split()[2] for line in lines[-2:]] == ["verify", "publish"]
    print_end(BuildReport("done"), BuildRequest(workspace=place))
    done = capsys.readouterr().err
    assert "verify" not in done
    print_end(BuildReport("failed", broken={NAME: Cause("no CUDA")}), BuildRequest(workspace=place))
    assert NAME in capsys.readouterr().err
    print_end(BuildReport("stopped"), BuildRequest(workspace=place))
    assert ("stopped" in done, "stopped" in capsys.readouterr().err) == (False, True)
    monkeypatch.setenv("COLUMNS", "20")
    print_end(BuildReport("done", results=links), BuildRequest(workspace=place))
    paths = [line for line in capsys.readouterr().err.splitlines() if " -> " in line]
    assert all(line.endswith(f" -> {tmp_path}") for line in paths), "a path is in one line, to be copied"
    assert paths


@pytest.mark.parametrize("nixpkgs", [(), ("sample",)])
def test_only_a_build_that_can_compute_is_to_be_tested(
    nixpkgs: tuple[str, ...],
    place: Path,
    call: Call,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = standin.build(place / "out")
    (place / "link").symlink_to(output)
    print_end(
        BuildReport("done", results={NAME: place / "link"}), BuildRequest(workspace=place, nixpkgs=nixpkgs)
    )
    assert ("torchsmith test" in capsys.readouterr().err) is not bool(nixpkgs)
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", " ".join(nixpkgs))
    verified = call("verify", output, "--no-cpu")
    assert verified.code == 0
    assert ("torchsmith test" in verified.err) is not bool(nixpkgs)


def test_verify_says_that_there_is_no_file_and_that_urls_are_not_read(place: Path, call: Call) -> None:
    missing = call("verify", "no.whl", "-w", place)
    url = call("verify", "https://host.invalid/x.whl", "-w", place)
    assert (missing.code, "there is no file no.whl" in missing.err) == (2, True)
    assert (url.code, "download" in url.err) == (2, True)


def test_a_run_without_jobs_says_so(place: Path, call: Call) -> None:
    record = open_record(place)
    record.end_run(record.start_run("nix", ()), "done")
    record.close()
    assert "no jobs" in call("runs", "-w", place).out
    assert call("runs", "nothing", "-w", place).error == "not-found"
