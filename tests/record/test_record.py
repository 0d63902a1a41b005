"""The record holds what happened, whatever happens to the process that writes it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Exit, Problem
from torchsmith.core.state import state_folder
from torchsmith.record import Attempt, Built, JobRow, Past, Record, VerificationRow, Work, expect, open_record
from torchsmith.record.database import record_problem

GPU_TORCH = Work("pytorch-a", "pytorch", True, "x86_64-linux")


def job(run: int, name: str) -> JobRow:
    return JobRow(
        run=run,
        key=f"k-{name}",
        name=name,
        package="pytorch",
        gpu=True,
        system="x86_64-linux",
        targets=(name,),
        state="waiting",
        log=f"{name}.log",
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return open_record(tmp_path)


def test_a_run_that_was_killed_is_found_with_what_it_was_asked_for(record: Record, tmp_path: Path) -> None:
    run = record.start_run("nix", ["sm120"])
    record.add_jobs([job(run, "a"), job(run, "b")])
    record.job_started(run, "k-a", 8)
    record.close()
    again = open_record(tmp_path)
    [last] = again.runs()
    assert (last.selection, last.state) == (("sm120",), "running")
    again.start_run("nix", [])
    assert [row.state for row in again.jobs(run)] == ["lost", "waiting"]


def test_killing_the_writer_at_any_moment_leaves_a_record_that_opens(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from torchsmith.record import *\n"
        "r = open_record(Path(sys.argv[1])); print('open', flush=True)\n"
        "while True:\n"
        "    n = r.start_run('nix', ['x' * 500]); r.end_run(n, 'done')\n"
    )
    for delay in (0.02, 0.1, 0.2):
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(delay)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        runs = open_record(tmp_path).runs(10_000)
        assert runs
        assert all(run.state in ("done", "stopped") for run in runs[1:])
        with sqlite3.connect(state_folder(tmp_path) / "record.sqlite") as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_record_of_a_newer_torchsmith_is_refused_and_left_alone(record: Record, tmp_path: Path) -> None:
    record.close()
    file = state_folder(tmp_path) / "record.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(Problem) as caught:
        open_record(tmp_path)
    assert (caught.value.exit, "99" in caught.value.message) == (Exit.ENVIRONMENT, True)


def test_history_shows_the_newest_first_and_one_job_alone(record: Record) -> None:
    run = record.start_run("nix", [])
    record.add_jobs([job(run, "a"), job(run, "b")])
    for name, state in (("a", "done"), ("b", "failed")):
        record.job_started(run, f"k-{name}", 4)
        record.job_ended(run, f"k-{name}", Attempt(state=state, error="no"))  # type: ignore[arg-type]
    assert [row.name for row in record.history()] == ["b", "a"]
    assert [row.state for row in record.history("a")] == ["done"]
    assert [past.name for past in record.past()] == ["a"]


def test_the_newest_verdict_of_an_output_counts(record: Record) -> None:
    record.note_verdict(VerificationRow(output="/nix/store/x", name="a", ok=False, detail="no sm120"))
    record.note_verdict(VerificationRow(output="/nix/store/x", name="a", ok=True))
    found = record.verdict("/nix/store/x", "", "a")
    assert found is not None
    assert found.ok
    assert record.verdict("/nix/store/y", "", "a") is None


def test_a_verdict_belongs_to_an_output_a_derivation_and_a_name(record: Record) -> None:
    own = VerificationRow(output="/nix/store/x", name="a", ok=True, derivation="/nix/store/a.drv")
    record.note_verdict(own)
    other = msgspec.structs.replace(own, name="b", ok=False)
    record.note_verdict(other)
    found = [record.verdict("/nix/store/x", "/nix/store/a.drv", name) for name in "ab"]
    assert [row.ok for row in found if row] == [True, False]
    assert record.verdict("/nix/store/x", "/nix/store/b.drv", "a") is None


def test_an_estimate_prefers_the_same_build_then_its_kind_then_the_catalog() -> None:
    catalog = builtin_catalog()

    def past(name: str, seconds: float, **other: object) -> Past:
        fields = {"package": "pytorch", "gpu": True, "system": "x86_64-linux", "cores": 16} | other
        return Past(name=name, seconds=seconds, **fields)  # type: ignore[arg-type]

    both = [past("pytorch-b", 5000), past("pytorch-a", 4000)]
    assert expect(GPU_TORCH, both, catalog, 16).seconds == 4000
    kind = expect(GPU_TORCH, both[:1], catalog, 16)
    assert (kind.seconds, kind.basis) == (5000, "kind_build")
    table = expect(GPU_TORCH, [past("pytorch-b", 5000, system="aarch64-linux")], catalog, 16)
    assert (table.seconds, table.basis) == (catalog.estimates["pytorch-gpu"].hours * 3600, "guess")


def test_a_figure_that_was_never_measured_is_called_a_guess() -> None:
    catalog = builtin_catalog()
    cpu = expect(Work("pytorch-a", "pytorch", gpu=False, system="x86_64-linux"), [], catalog, 16)
    assert cpu.basis == "catalog_measured"
    assert cpu.seconds == pytest.approx((6.33 + 0.25) * 3600 / 16, rel=0.01), "core hours"
    vision = expect(Work("v", "torchvision", gpu=True, system="x86_64-linux"), [], catalog, 2)
    assert vision.seconds * 2 == pytest.approx(11 * 60, rel=0.02), "core minutes"
    assert (cpu.guesses, cpu.steps) == (("build_gb",), 3835)
    gpu = expect(GPU_TORCH, [], catalog, 16)
    assert (gpu.basis, gpu.guesses[0], gpu.steps) == ("guess", "seconds", 4386)
    rocm = expect(replace(GPU_TORCH, estimated=False), [], catalog, 16)
    assert (rocm.basis, rocm.guesses[0], rocm.seconds) == ("unknown", "seconds", gpu.seconds)
    for row in catalog.estimates.values():
        assert bool(row.measured) or row.unproved, f"{row.name} neither measured nor called unproved"


def test_half_the_cores_take_twice_the_time_and_the_memory_of_eight_units_less() -> None:
    catalog = builtin_catalog()
    row = catalog.estimates["pytorch-gpu"]
    whole, half = (expect(GPU_TORCH, [], catalog, cores) for cores in (16, 8))
    assert half.seconds == 2 * whole.seconds
    assert whole.memory_gb - half.memory_gb == pytest.approx(8 * row.unit_gb)
    assert expect(GPU_TORCH, [], catalog, 1).memory_gb == row.largest_gb


def test_builds_on_record_count_in_core_seconds() -> None:
    fields = {"package": "pytorch", "gpu": True, "system": "x86_64-linux"}
    past = [Past(name=GPU_TORCH.name, seconds=1000, cores=16, **fields)]  # type: ignore[arg-type]
    assert expect(GPU_TORCH, past, builtin_catalog(), 4).seconds == 4000
    slow = Past(name=GPU_TORCH.name, seconds=9000, cores=2, **fields)  # type: ignore[arg-type]
    assert expect(GPU_TORCH, [*past, slow, slow], builtin_catalog(), 4).seconds == 4500


def test_reading_touches_no_file_and_needs_none(tmp_path: Path) -> None:
    empty = open_record(tmp_path, read_only=True)
    assert (empty.runs(), empty.history(), empty.built("a")) == ([], [], None)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_a_problem_with_its_place_and_leaves_the_record_whole(record: Record) -> None:
    run = record.start_run("nix", [])
    pages = record._execute("pragma page_count")[0][0]
    record._execute(f"pragma max_page_count = {pages}")
    with pytest.raises(Problem) as caught:
        record.add_jobs([job(run, f"job-{number}" * 50) for number in range(200)])
    assert "space" in caught.value.hint
    assert str(record.path) in caught.value.message
    assert record.jobs(run) == []
    record._execute("pragma max_page_count = 100000")
    record.end_run(run, "done")


def test_bit_rot_is_a_problem_whose_hint_keeps_the_history(record: Record, tmp_path: Path) -> None:
    run = record.start_run("nix", [])
    record.add_jobs([job(run, f"job-{number}") for number in range(200)])
    record._execute("pragma wal_checkpoint(truncate)")
    record.close()
    data = bytearray(record.path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    record.path.write_bytes(data)
    for read_only in (True, False):
        with pytest.raises(Problem) as caught:
            open_record(tmp_path, read_only=read_only).jobs(run)
        assert ".recover" in caught.value.hint


@pytest.fixture
def _backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is put back an hour at every look."""
    times = (hours * 3600.0 for hours in range(1000, 0, -1))
    monkeypatch.setattr("torchsmith.record.database.time", lambda: next(times))


@pytest.mark.usefixtures("_backwards")
def test_a_clock_that_goes_back_gives_no_negative_hours(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    run = record.start_run("nix", [])
    record.add_jobs([job(run, "a")])
    record.job_started(run, "k-a", 8)
    record.job_ended(run, "k-a", Attempt(state="done"))
    assert record.past() == []
    assert record.history()[0].seconds == 0.0


@pytest.mark.usefixtures("_backwards")
def test_the_last_build_is_the_one_written_down_last_whatever_the_clock_says(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    for derivation in ("a.drv", "b.drv", "a.drv", "c.drv"):
        record.note_built(Built(name="torch", derivation=derivation, outputs=("/s",)))
    found = record.built("torch")
    assert found is not None
    assert (found.derivation, [one.derivation for one in record.all_built()]) == ("c.drv", ["c.drv"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outputs", "x"),
        ("outputs", b"\xff\xfe"),
        ("attempts", 1e400),
        ("ended", 1e400),
        ("state", "gone"),
    ],
)
def test_a_damaged_value_is_told_with_its_place_and_hint(column: str, value: object, tmp_path: Path) -> None:
    record = open_record(tmp_path)
    run = record.start_run("nix", [])
    record.add_jobs([job(run, "a")])
    record._execute("pragma ignore_check_constraints = true")
    record._execute(f"update jobs set {column} = ?", (value,))
    with pytest.raises(Problem) as raised:
        record.jobs(run)
    assert str(record.path) in raised.value.message
    assert ".recover" in raised.value.hint


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionError(13, "Permission denied", "/w"), "writable"),
        (OSError(28, "No space left on device", "/w"), "space"),
        (OSError(30, "Read-only file system", "/w"), "writable"),
        (sqlite3.DatabaseError("database disk image is malformed"), ".recover"),
        (sqlite3.OperationalError("database is locked"), "try again"),
    ],
)
def test_the_kind_of_an_error_decides_its_hint(error: Exception, hint: str, tmp_path: Path) -> None:
    assert hint in record_problem(tmp_path, error).hint
