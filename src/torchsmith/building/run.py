"""One run: jobs handed out in order within what the machine gives, retried by policy, written down."""

from __future__ import annotations

import contextlib
import queue
import random
import re
import shlex
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from torchsmith.building.events import (
    Event,
    JobEnded,
    JobRetried,
    JobStarted,
    RecipeVerified,
    Remark,
    RunEnded,
    RunStarted,
    Tick,
)
from torchsmith.building.job import Backend, Job, Outcome, Tell
from torchsmith.building.processes import LogFile
from torchsmith.building.schedule import Chains, Task, longest_chain_first
from torchsmith.building.settle import After, Afterwards
from torchsmith.catalog import KnownError
from torchsmith.core.clock import Clock
from torchsmith.core.files import read_text
from torchsmith.core.problem import Exit, Problem
from torchsmith.core.secrets import Redact, redactor
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Attempt, Expected, JobRow, JobState, Record, RunState
from torchsmith.repair.diagnose import Diagnosis, diagnose

ATTEMPTS = 5  # of a job whose failure may pass: network, a lost builder, memory
BACKOFF = (5.0, 20.0, 60.0, 180.0)  # seconds before each further attempt: a builder takes minutes to reboot
PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """What may run at once: jobs of each system, and for builds on this machine their memory."""

    slots: Mapping[str, int]  # by system; jobs of a system that is not here do not start
    total: int
    cores: int  # of each job
    memory_gb: float = float("inf")


@dataclass(frozen=True, slots=True)
class BuildReport:
    """How a run ended."""

    state: RunState
    done: tuple[str, ...] = ()
    failed: Mapping[str, Diagnosis] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # interrupted, or never started
    notes: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()  # recipes that needed no build, and are there
    wrong: Mapping[str, str] = field(default_factory=dict)  # recipes whose build is not what its name says
    broken: Mapping[str, str] = field(default_factory=dict)  # recipes that do not evaluate, and why
    jobs: int = 0  # that there were in all
    above: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the recipes that a failed job is for
    results: Mapping[str, Path] = field(default_factory=dict)  # links to builds that are right, by recipe

    @property
    def exit(self) -> Exit:
        """LACKING where nothing but downloads failed."""
        if self.state == "done" and not (self.broken or self.notes or self.wrong):
            return Exit.FINE
        kinds = {diagnosis.kind for diagnosis in self.failed.values()}
        unread = exit_of(self.broken.values())
        others = self.notes or self.wrong or unread is Exit.NOT_RIGHT
        return Exit.LACKING if (kinds or unread) and kinds <= {"network"} and not others else Exit.NOT_RIGHT


@dataclass
class Run:
    """The state of a run in memory; the record holds the same on disk."""

    jobs: Sequence[Job]
    expected: Mapping[str, Expected]
    backend: Backend
    limits: Limits
    record: Record
    number: int
    logs: Path
    errors: Collection[KnownError]
    tell: Tell
    clock: Clock = field(default_factory=Clock)
    built: Callable[[Job, Outcome], None] = lambda job, outcome: None  # e.g. write down what it was
    after: After | None = None  # what is done with each build
    keep_going: bool = True
    broken: int = 0  # recipes that were asked for and do not evaluate
    backoff: Sequence[float] = BACKOFF
    redact: Redact = field(default_factory=redactor)

    def __post_init__(self) -> None:
        self.waiting = {job.key: job for job in self.jobs}
        self.running: dict[str, tuple[Job, float]] = {}  # with when it began
        self.done: dict[str, Job] = {}
        self.failed: dict[str, Diagnosis] = {}  # by name
        self.skipped: dict[str, Job] = {}
        self.cores = {job.key: self.limits.cores for job in self.jobs}
        self.attempts = dict.fromkeys(self.waiting, 0)
        self.notes: list[str] = []
        self.not_before: dict[str, float] = {}
        self.look = 0.0  # when jobs may be startable that were not before
        tasks = [
            Task(job.key, job.name, self.expected[job.key].seconds, job.system, job.needs)
            for job in self.jobs
        ]
        ranked = sorted(tasks, key=longest_chain_first(Chains(tasks)))
        self.rank = {task.key: index for index, task in enumerate(ranked)}
        self.wrong: dict[str, str] = {}
        self.following = 0
        self.builds: queue.SimpleQueue[tuple[Job, Sequence[str]] | None] = queue.SimpleQueue()
        self.events: queue.SimpleQueue[
            Event | Tick | Afterwards | Exception | tuple[Job, Outcome | BaseException]
        ]
        self.events = queue.SimpleQueue()

    def go(self) -> BuildReport:
        """Build until nothing is left that can be; an interrupt ends what runs and leaves the rest."""
        with contextlib.suppress(OSError):
            self.logs.mkdir(parents=True, exist_ok=True)
        self._keep(self._write_down)
        self._say(RunStarted(counts=self._counts()))
        pool = ThreadPoolExecutor(max(1, self.limits.total), thread_name_prefix="job")
        # A daemon: nobody waits for a look at a build that an interrupt has made idle.
        threading.Thread(target=self._follow, name="after", daemon=True).start()
        state: RunState = "stopped"
        try:
            self._loop(pool)
            undone = self.failed or self.skipped or self.waiting or self.broken
            state = "failed" if undone else "done"
        except KeyboardInterrupt:
            self.backend.stop()
            if self.after is not None:
                self.after.stop()
            for job, _ in self.running.values():
                self._ended_as(job, Attempt(state="lost", error="interrupted"))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self.builds.put(None)
            self._keep(lambda: self.record.end_run(self.number, state))
        self._say(RunEnded(state=state, counts=self._counts()))
        left = [*self.waiting.values(), *(job for job, _ in self.running.values())]
        return BuildReport(
            state,
            tuple(job.name for job in self.done.values()),
            self.failed,
            tuple(job.name for job in self.skipped.values()),
            tuple(job.name for job in left) if state == "stopped" else (),
            tuple(self.notes),
            wrong=self.wrong,
        )

    def log_of(self, job: Job) -> Path:
        """Where a job's log is: its name, without what a file's name should not hold."""
        return self.logs / f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', job.name).strip('-')}.log"

    def _write_down(self) -> None:
        self.record.add_jobs(
            JobRow(
                run=self.number,
                key=job.key,
                name=job.name,
                package=job.package,
                gpu=job.gpu,
                system=job.system,
                targets=job.targets,
                state="waiting",
                log=str(self.log_of(job)),
            )
            for job in self.jobs
        )

    def _loop(self, pool: ThreadPoolExecutor) -> None:
        while True:
            now = self.clock.monotonic()
            if now >= self.look and not self._giving_up():
                for job in self.startable():
                    self._start(job, pool)
                rests = (self.not_before.get(key, 0.0) for key in self.waiting)
                self.look = min((when for when in rests if when > now), default=float("inf"))
            resting = self.not_before.keys() & self.waiting.keys()
            if not self.running and not self.following and (not resting or self._giving_up()):
                return
            try:
                item = self.events.get(timeout=PAUSE)
            except queue.Empty:
                item = Tick()
            if isinstance(item, Afterwards):
                self.following -= 1
                self._followed(item)
            elif isinstance(item, Exception):
                raise item
            elif isinstance(item, tuple):
                self._ended(*item)
            else:
                self.tell(item)

    def _giving_up(self) -> bool:
        return bool(self.failed) and not self.keep_going

    def startable(self) -> list[Job]:
        """The jobs to start now: ready ones in their order, as far as slots and memory reach."""
        chosen: list[Job] = []
        held = list(self.running.values())
        used = {system: sum(job.system == system for job, _ in held) for system in self.limits.slots}
        memory = sum(self._memory(job) for job, _ in held)
        count = len(held)
        for job in sorted(self.waiting.values(), key=lambda one: self.rank[one.key]):
            if count >= self.limits.total:
                break
            if any(need in self.waiting or need in self.running for need in job.needs):
                continue
            if self.clock.monotonic() < self.not_before.get(job.key, 0.0):
                continue
            fits = memory + self._memory(job) <= self.limits.memory_gb or not (held or chosen)
            if used.get(job.system, 0) >= self.limits.slots.get(job.system, 0) or not fits:
                continue
            chosen.append(job)
            used[job.system] += 1
            memory += self._memory(job)
            count += 1
        return chosen

    def _memory(self, job: Job) -> float:
        return self.expected[job.key].memory_gb * self.cores[job.key] / max(self.limits.cores, 1)

    def _start(self, job: Job, pool: ThreadPoolExecutor) -> None:
        del self.waiting[job.key]
        cores = self.cores[job.key]
        self.attempts[job.key] += 1
        self.running[job.key] = (job, self.clock.monotonic())
        self._keep(lambda: self.record.job_started(self.number, job.key, cores))
        attempt, expected = self.attempts[job.key], self.expected[job.key].seconds
        self._say(JobStarted(**job.told, cores=cores, attempt=attempt, expected=expected))
        log = self.log_of(job)
        with contextlib.suppress(OSError):
            log.write_text(f"$ {self.redact(shlex.join(self.backend.command(job, cores)))}\n")
        pool.submit(self._work, job, cores, log)

    def _work(self, job: Job, cores: int, log: Path) -> None:
        try:
            outcome: Outcome | BaseException = self.backend.build(job, cores, log, self.events.put)
        except BaseException as error:
            outcome = error
        self.events.put((job, outcome))

    def _ended(self, job: Job, outcome: Outcome | BaseException) -> None:
        if isinstance(outcome, KeyboardInterrupt):
            raise outcome
        _, began = self.running.pop(job.key)
        self.look = 0.0
        seconds = self.clock.monotonic() - began
        if isinstance(outcome, Problem):
            outcome = self._refused(job, outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome.ok:
            self._succeeded(job, outcome, seconds)
        else:
            self._failed(job, outcome, seconds)

    def _refused(self, job: Job, problem: Problem) -> Outcome:
        with contextlib.closing(LogFile(self.log_of(job))) as log:
            log.write(f"error: {self.redact(str(problem))}\n")
        return Outcome(False, said=log.lost)

    def _succeeded(self, job: Job, outcome: Outcome, seconds: float) -> None:
        self.done[job.key] = job
        self._ended_as(job, Attempt(state="done", outputs=outcome.outputs, builder=outcome.builder))
        self._keep(lambda: self.built(job, outcome))
        built = JobEnded(**job.told, state="done", seconds=seconds, outputs=outcome.outputs)
        self._say(msgspec.structs.replace(built, builder=outcome.builder, counts=self._counts()))
        self._remark(job, outcome.note)
        if self.after is not None:
            self.following += 1
            self.builds.put((job, outcome.outputs))

    def _follow(self) -> None:
        while self.after is not None and (built := self.builds.get()) is not None:
            try:
                self.events.put(self.after.of(*built))
            except Exception as error:  # else the run would wait for this look for ever
                self.events.put(error)

    def _followed(self, done: Afterwards) -> None:
        for verdict in done.verdicts:
            row = msgspec.structs.replace(verdict, derivation=done.job.derivation)
            self._keep(lambda row=row: self.record.note_verdict(row))  # type: ignore[misc]
            self._say(RecipeVerified(name=verdict.name, ok=verdict.ok, words=verdict.detail))
            if not verdict.ok:
                self.wrong[verdict.name] = verdict.detail
        self._remark(done.job, done.words)

    def _remark(self, job: Job, words: str) -> None:
        if words:
            self.notes.append(f"{job.name}: {self.redact(words)}")
            self._say(Remark(**job.told, words=self.redact(words)))

    def _failed(self, job: Job, outcome: Outcome, seconds: float) -> None:
        found = diagnose(outcome.said or read_text(self.log_of(job), lenient=True), self.errors)
        fewer = found.policy == "retry-fewer-jobs" and not outcome.builder  # Nix sends no cores over ssh
        hopeless = found.policy == "stop" or (fewer and self.cores[job.key] == 1)
        again = (outcome.killed or not hopeless) and self.attempts[job.key] < ATTEMPTS
        state: JobState = "waiting" if again else "failed"
        self._ended_as(job, Attempt(state=state, builder=outcome.builder, error=found.summary))
        if again:
            self._again(job, found, fewer=fewer)
            return
        self.failed[job.name] = found
        self._say(JobEnded(**job.told, state="failed", seconds=seconds, words=found.summary))
        self._skip_users(job)

    def _again(self, job: Job, found: Diagnosis, *, fewer: bool) -> None:
        rest = 0.0
        if fewer:
            self.cores[job.key] = max(1, self.cores[job.key] // 2)
        else:
            step = min(self.attempts[job.key], len(self.backoff)) - 1
            rest = self.backoff[step] * random.uniform(0.5, 1.5)  # builders do not all come back at once
            self.not_before[job.key] = self.clock.monotonic() + rest
        self.waiting[job.key] = job
        attempt, cores = self.attempts[job.key] + 1, self.cores[job.key] if fewer else 0
        self._say(JobRetried(**job.told, words=found.summary, attempt=attempt, cores=cores, seconds=rest))
        # What is told again must not be taken for the next attempt's own failure.
        log = self.log_of(job)
        with contextlib.suppress(OSError):
            log.replace(log.with_suffix(f".attempt{self.attempts[job.key]}.log"))

    def _skip_users(self, failed: Job) -> None:
        """What needs a failed job is not tried."""
        gone = {failed.key}
        for job in self.jobs:
            if job.key in self.waiting and job.needs & gone:
                gone.add(job.key)
                self.skipped[job.key] = self.waiting.pop(job.key)
                ended = Attempt(state="skipped", error=f"needs {failed.name}, which failed")
                self._ended_as(job, ended)
                self._say(JobEnded(**job.told, state="skipped", words=ended.error))

    def _ended_as(self, job: Job, attempt: Attempt) -> None:
        self._keep(lambda: self.record.job_ended(self.number, job.key, attempt))

    def _keep(self, write: Callable[[], None]) -> None:
        """Write something down; a record that cannot be written costs its lines, never a build."""
        try:
            write()
        except Problem as problem:
            words = f"{problem.message}; builds go on, and the next run writes down what is in the store"
            if words not in self.notes:
                self.notes.append(words)
                self._say(Remark(words=words))

    def _counts(self) -> dict[str, int]:
        return {
            "done": len(self.done),
            "running": len(self.running),
            "waiting": len(self.waiting),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }

    def _say(self, event: Event) -> None:
        self.tell(msgspec.structs.replace(event, at=self.clock.now()))
