"""A run hands jobs out within its limits, tries again by policy, and writes everything down."""

from __future__ import annotations

import _thread
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from msgspec import structs

from torchsmith.building.events import Event, JobRetried, JobSteps
from torchsmith.building.job import Job, OnEvent, Outcome
from torchsmith.building.plan import Machine, Resources, Share, require_room, share_out
from torchsmith.building.post_build import Copier, PostBuild, Verifier
from torchsmith.building.processes import LogFile, Processes
from torchsmith.building.queue import JobQueue, Limits
from torchsmith.building.recorder import Recorder
from torchsmith.building.report import BuildReport
from torchsmith.building.retries import BACKOFF, MOST_ATTEMPTS, Retries
from torchsmith.building.run import Run
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import MissingRequirement, Problem
from torchsmith.core.secrets import redactor
from torchsmith.record import Expected, Record, open_record

X86 = "x86_64-linux"
KILLED = "something ended it"
OOM = "c++: fatal error: Killed signal terminated program cc1plus"
Script = Callable[[Job, int, int], str]  # job, attempt and cores -> what the log says; empty: success


def job(name: str, *needs: str) -> Job:
    return Job(
        name, name, (name,), "pytorch", True, X86, frozenset(needs), recipes=(name,), outputs=(f"/s/{name}",)
    )


class Scripted:
    """A backend that does what a test says."""

    name = "scripted"

    def __init__(self, script: Script = lambda *_: "") -> None:
        self.script = script
        self.started: list[tuple[str, int]] = []
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()

    def command(self, job: Job, cores: int) -> list[str]:
        return ["true"]

    def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome:
        with self._lock:
            self.started.append((job.name, cores))
            self._running += 1
            self.most = max(self.most, self._running)
            attempt = sum(name == job.name for name, _ in self.started)
        threading.Event().wait(0.02)
        said = self.script(job, attempt, cores)
        with log.open("a") as file:
            file.write(said)
        with self._lock:
            self._running -= 1
        return Outcome(not said, job.outputs, killed=said == KILLED)

    def stop(self) -> None:
        return


def go(
    jobs: Sequence[Job],
    tmp_path: Path,
    backend: Scripted,
    memory: float = 8.0,
    slots: int = 4,
    keep_going: bool = True,
    copier: Copier | None = None,
    look: Verifier | None = None,
    on_event: OnEvent = lambda _: None,
) -> tuple[BuildReport, Record, list[Event]]:
    record, events = open_record(tmp_path), list[Event]()

    def heard(event: Event) -> None:
        events.append(event)
        on_event(event)

    run = Run(
        jobs=JobQueue(
            jobs,
            {one.key: Expected(60, memory, 1, 1, "guess") for one in jobs},
            Limits({X86: slots}, slots, 8, 20.0),
        ),
        retries=Retries(),
        recorder=Recorder(record, record.start_run("scripted", []), tmp_path / "logs", heard),
        backend=backend,
        catalog=builtin_catalog(),
        keep_going=keep_going,
        post_build=PostBuild(look, copier),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchsmith.building.retries.BACKOFF", (0.0,))
        return run.go(), record, events


def test_jobs_run_side_by_side_within_memory_and_after_what_they_need(tmp_path: Path) -> None:
    backend = Scripted()
    finished, record, _ = go([job("a"), job("b"), job("c"), job("d", "a", "b", "c")], tmp_path, backend)
    assert finished.state == "done"
    assert backend.most == 2, "three would need 24 of 20 GB"
    assert backend.started[-1][0] == "d"
    assert {row.state for row in record.jobs(1)} == {"done"}


def test_a_mistake_of_ours_in_a_look_at_a_build_ends_the_run_and_does_not_hang_it(tmp_path: Path) -> None:
    def look(name: str, path: str) -> None:
        raise ValueError(f"cannot read {path}")

    with pytest.raises(ValueError, match="cannot read"):
        go([job("a")], tmp_path, Scripted(), look=look)


def test_a_compiler_out_of_memory_is_tried_again_with_half_the_cores(tmp_path: Path) -> None:
    backend = Scripted(lambda job, attempt, cores: OOM if cores > 2 else "")
    finished, _, events = go([job("a")], tmp_path, backend)
    assert finished.state == "done"
    assert [cores for _, cores in backend.started] == [8, 4, 2]
    assert [event.cores for event in events if isinstance(event, JobRetried)] == [4, 2]


def test_a_compiler_out_of_memory_on_one_core_is_not_tried_the_same_way_again(tmp_path: Path) -> None:
    backend = Scripted(lambda *_: OOM)
    finished, _, _ = go([job("a")], tmp_path, backend)
    assert finished.failed["a"].entry == "out-of-memory"
    assert [cores for _, cores in backend.started] == [8, 4, 2, 1]


def test_a_lost_builder_is_tried_again_and_a_compile_error_is_not(tmp_path: Path) -> None:
    said = {"a": "error: unexpected end-of-file", "b": "x.cpp:1: error: expected ';'"}
    backend = Scripted(lambda job, attempt, cores: said[job.name] if attempt == 1 or job.name == "b" else "")
    finished, _, _ = go([job("a"), job("b")], tmp_path, backend)
    assert finished.done == ("a",)
    assert finished.failed["b"].kind == "compile"
    assert [name for name, _ in backend.started].count("b") == 1


def test_nothing_is_tried_for_ever(tmp_path: Path) -> None:
    backend = Scripted(lambda *_: "error: unexpected end-of-file")
    finished, record, _ = go([job("a")], tmp_path, backend)
    assert len(backend.started) == MOST_ATTEMPTS
    assert finished.failed["a"].entry == "builder-lost"
    assert record.jobs(1)[0].attempts == MOST_ATTEMPTS


def test_what_needs_a_failed_job_is_not_tried_and_the_rest_is(tmp_path: Path) -> None:
    backend = Scripted(lambda job, *_: "a.cpp: error: no" if job.name == "a" else "")
    finished, record, _ = go([job("a"), job("b"), job("c", "a"), job("d", "c")], tmp_path, backend)
    assert (finished.state, finished.done, finished.skipped) == ("failed", ("b",), ("c", "d"))
    assert [row.error for row in record.jobs(1) if row.name == "d"] == ["needs a, which failed"]
    assert record.runs(1)[0].state != "done"


def test_an_interrupt_does_not_wait_for_a_look_at_a_build(tmp_path: Path) -> None:
    over, ended = threading.Event(), list[str]()

    def look(name: str, output: str) -> None:
        _thread.interrupt_main()
        over.wait(60)
        ended.append(name)

    finished, _, _ = go([job("a")], tmp_path, Scripted(), look=look)
    assert (finished.state, ended) == ("stopped", [])
    over.set()


def test_an_interrupt_waits_for_the_builds_that_it_ends(tmp_path: Path) -> None:
    ended = list[str]()

    class Slow(Scripted):
        def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome:
            on_event(JobSteps(job=job.key))
            time.sleep(0.3)
            ended.append(job.name)
            return super().build(job, cores, log, on_event)

    def on_event(event: Event) -> None:
        if isinstance(event, JobSteps):
            raise KeyboardInterrupt

    finished, _, _ = go([job("a")], tmp_path, Slow(), on_event=on_event)
    assert (finished.state, ended) == ("stopped", ["a"])


def test_fail_fast_starts_nothing_more(tmp_path: Path) -> None:
    backend = Scripted(lambda job, *_: "error: no" if job.name == "a" else "")
    finished, _, _ = go([job("a"), job("b")], tmp_path, backend, slots=1, keep_going=False)
    assert [name for name, _ in backend.started] == ["a"]
    assert finished.state == "failed"


def test_an_error_of_ours_in_a_backend_is_told_as_a_failure_of_that_job(tmp_path: Path) -> None:
    class Refusing(Scripted):
        def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome:
            raise Problem("flox is gone")

    finished, _, _ = go([job("a")], tmp_path, Refusing())
    assert "error: flox is gone" in finished.failed["a"].lines


def test_secrets_of_the_environment_are_replaced_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FLOX_FLOXHUB_TOKEN", "abcdef123456"), ("HOME", "/root"), ("X_TOKEN", "12")):
        monkeypatch.setenv(name, value)
    assert redactor()("token abcdef123456 of /root, 12") == "token [FLOX_FLOXHUB_TOKEN] of /root, 12"


def test_cores_follow_from_memory() -> None:
    machine = Machine(cores=32, memory_gb=48, store_gb=500, scratch_gb=500, one_disk=True)
    row = structs.replace(builtin_catalog().estimates["pytorch-gpu"], unit_gb=3.0, largest_gb=6.0)
    assert (row.memory_gb(1), row.memory_gb(7), row.compilers_within(24)) == (6, 24, 7)
    assert share_out(machine, row, Resources()) == Share(2, 7, 48), "16 cores each would take 102 GB"
    assert share_out(machine, row, Resources(jobs=1)).cores == 15
    assert share_out(machine, row, Resources(4, 16, 8)).cores == 1, "one compiler, whatever it takes"
    assert share_out(machine, None, Resources()).cores == 16


def refusal(machine: Machine, expected: Sequence[Expected], share: Share, per_core: float) -> list[str]:
    with pytest.raises(MissingRequirement) as raised:
        require_room(machine, share, expected, per_core)
    return re.findall(r"memory|disk|[\d.]+ [GM]B", raised.value.message)


def test_too_little_memory_or_disk_is_refused_with_the_numbers() -> None:
    torch = Expected(7200, 48, 20, 2.5, "guess")
    small = Machine(4, 2.0, 10, 500, one_disk=False)
    assert refusal(small, [torch], Share(1, 1, 2.0), 3.0) == ["memory", "3.0 GB", "2.0 GB"]
    assert refusal(small, [torch] * 5, Share(1, 4, 64), 3.0) == ["disk", "12 GB", "10 GB"]
    tiny = Machine(4, 64, 0.002, 500, one_disk=False)
    few = [Expected(1, 1, 0.01, 0.01, "guess")]
    assert refusal(tiny, few, Share(1, 4, 64), 0.1) == ["disk", "10.2 MB", "2.0 MB"]
    together = Machine(4, 64, 100, 100, one_disk=True)
    assert refusal(together, [torch] * 40, Share(1, 4, 64), 3.0)[:2] == ["disk", "120 GB"]
    require_room(together, Share(1, 4, 64), [torch] * 4, 3.0)
    require_room(small, Share(1, 1, 0.1), [], 3.0)  # nothing to build needs nothing


class Held(Copier):
    """A copy that ends only once another job has run."""

    def __init__(self, backend: Scripted) -> None:
        self.backend, self.copied = backend, list[str]()

    def copy(self, paths: Sequence[str]) -> str:
        while len(self.backend.started) < 2:
            threading.Event().wait(0.01)
        self.copied += paths
        return "the cache is full" if "/s/a" in paths else ""

    def stop(self) -> None:
        return


def test_the_schedule_does_not_wait_for_copies_and_what_fails_is_told(tmp_path: Path) -> None:
    backend = Scripted()
    copier = Held(backend)
    finished, record, _ = go([job("a"), job("b", "a")], tmp_path, backend, copier=copier)
    assert (finished.state, copier.copied) == ("done", ["/s/a", "/s/b"])
    assert finished.notes == ("a: the cache is full",)
    assert {row.state for row in record.jobs(1)} == {"done"}


def test_a_build_that_was_killed_by_a_signal_is_tried_again(tmp_path: Path) -> None:
    backend = Scripted(lambda job, attempt, cores: KILLED if attempt == 1 else "")
    finished, _, _ = go([job("a")], tmp_path, backend)
    assert (finished.state, len(backend.started)) == ("done", 2)


def test_attempts_wait_longer_and_longer_so_that_a_builder_can_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = count(60.0, 60.0)  # a minute passes between two looks at the clock
    for module in ("run", "retries"):
        monkeypatch.setattr(f"torchsmith.building.{module}.monotonic", lambda: next(minutes))
    record, events = open_record(tmp_path), list[Event]()
    backend = Scripted(lambda *_: "error: unexpected end-of-file")
    number = record.start_run("scripted", [])
    run = Run(
        jobs=JobQueue([job("a")], {"a": Expected(60, 1, 1, 1, "guess")}, Limits({X86: 1}, 1, 8, 20.0)),
        retries=Retries(),
        recorder=Recorder(record, number, tmp_path / "logs", events.append),
        backend=backend,
        catalog=builtin_catalog(),
    )
    assert run.go().state == "failed"
    rests = [event.seconds for event in events if isinstance(event, JobRetried)]
    assert len(rests) == MOST_ATTEMPTS - 1
    assert all(0.5 * base <= rest <= 1.5 * base for base, rest in zip(BACKOFF, rests, strict=True))
    assert sum(BACKOFF) > 180, "minutes, not seconds"
    assert not any(event.cores for event in events if isinstance(event, JobRetried)), "no cores are claimed"


def test_recipes_that_do_not_evaluate_leave_the_run_undone(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    run = Run(
        jobs=JobQueue([], {}, Limits({}, 1, 8)),
        retries=Retries(),
        recorder=Recorder(record, record.start_run("scripted", []), tmp_path / "logs", lambda _: None),
        backend=Scripted(),
        catalog=builtin_catalog(),
        broken=1,
    )
    assert run.go().state == "failed"
    assert record.runs(1)[0].state != "done"


def test_a_record_that_cannot_be_written_costs_no_build(tmp_path: Path) -> None:
    record, events = open_record(tmp_path), list[Event]()
    backend = Scripted()
    costs = {name: Expected(60, 1, 1, 1, "guess") for name in "ab"}
    run = Run(
        jobs=JobQueue([job("a"), job("b", "a")], costs, Limits({X86: 1}, 1, 8, 20.0)),
        retries=Retries(),
        recorder=Recorder(record, record.start_run("scripted", []), tmp_path / "logs", events.append),
        backend=backend,
        catalog=builtin_catalog(),
    )
    record._execute("pragma query_only = true")
    finished = run.go()
    assert (finished.state, finished.done) == ("done", ("a", "b"))
    assert len(finished.notes) == 1, "told once"
    assert str(record.path) in finished.notes[0]


@pytest.mark.parametrize(("more", "lines"), [({}, ["err"]), ({"both": True}, ["out", "err"])])
def test_what_a_command_prints_is_read_only_if_asked_for(more: dict[str, bool], lines: list[str]) -> None:
    read: list[str] = []
    Processes().run(["sh", "-c", "echo out; echo err >&2"], os.environ, read.append, **more)
    assert read == lines


def test_a_command_whose_lines_cannot_be_read_is_ended(tmp_path: Path) -> None:
    told: list[str] = []

    def read(line: str) -> None:
        told.append(line)
        raise ValueError(line)

    with pytest.raises(ValueError, match=r"\d"):
        Processes().run(["sh", "-c", "echo $$ >&2; exec sleep 600"], os.environ, read)
    assert not Path("/proc", told[0]).exists()


def test_a_log_on_a_full_disk_keeps_its_last_lines_for_the_diagnosis() -> None:
    with closing(LogFile(Path("/dev/full"))) as log:
        log.write("building\n")
        log.write(f"{OOM}\n")
    assert log.lost == f"building\n{OOM}\n"
