"""One run: jobs handed out by the queue, tried again by policy, written down by the recorder."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import msgspec

from torchsmith.building.events import (
    Event,
    JobEnded,
    JobRetried,
    JobStarted,
    RecipeVerified,
    RunEnded,
    RunStarted,
)
from torchsmith.building.job import Backend, Job, Outcome
from torchsmith.building.post_build import PostBuild, PostBuildResult
from torchsmith.building.queue import JobQueue
from torchsmith.building.recorder import Recorder
from torchsmith.building.report import BuildReport
from torchsmith.building.retries import Retries
from torchsmith.catalog import Catalog
from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem
from torchsmith.record import Attempt, JobState, RunState
from torchsmith.repair.diagnose import Diagnosis, diagnose_log

TICK_SECONDS = 0.2
Message = Event | PostBuildResult | Exception | tuple[Job, Outcome | BaseException]


@dataclass
class Run:
    """Builds the jobs of a queue; their threads send messages to the loop."""

    jobs: JobQueue
    retries: Retries
    recorder: Recorder
    backend: Backend
    catalog: Catalog
    built: Callable[[Job, Outcome], None] = lambda job, outcome: None  # called after each build
    post_build: PostBuild = field(default_factory=PostBuild)
    keep_going: bool = True
    broken: int = 0  # recipes that do not evaluate
    _failed: dict[str, Diagnosis] = field(default_factory=dict)  # by name
    _wrong: dict[str, str] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    _post_building: int = 0  # builds that are being verified or copied
    _post_builds: queue.SimpleQueue[tuple[Job, Sequence[str]] | None] = field(
        default_factory=queue.SimpleQueue
    )
    _messages: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)

    def go(self) -> BuildReport:
        """Build until no job can start; an interrupt ends the running ones and leaves the rest."""
        jobs, recorder = self.jobs, self.recorder
        recorder.begin(jobs.jobs)
        recorder.event(RunStarted(counts=jobs.counts))
        pool = ThreadPoolExecutor(max(1, jobs.limits.total), thread_name_prefix="job")
        # A daemon: after an interrupt it is not waited for.
        threading.Thread(target=self._run_post_builds, name="after", daemon=True).start()
        state: RunState = "stopped"
        try:
            self._loop(pool)
            state = "failed" if jobs.failed or jobs.skipped or jobs.waiting or self.broken else "done"
        except KeyboardInterrupt:
            self.backend.stop()
            self.post_build.stop()
            for job in jobs.running.values():
                recorder.ended(job, Attempt(state="lost", error="interrupted"))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._post_builds.put(None)
            recorder.keep(partial(recorder.record.end_run, recorder.number, state))
        recorder.event(RunEnded(state=state, counts=jobs.counts))
        remaining = (*jobs.waiting.values(), *jobs.running.values()) if state == "stopped" else ()
        return BuildReport(
            state=state,
            done=tuple(job.name for job in jobs.done.values()),
            failed=self._failed,
            skipped=tuple(job.name for job in jobs.skipped.values()),
            remaining=tuple(job.name for job in remaining),
            notes=tuple(recorder.notes),
            wrong=self._wrong,
        )

    def _loop(self, pool: ThreadPoolExecutor) -> None:
        jobs = self.jobs
        due = 0.0  # when jobs may be startable that were not before
        while True:
            giving_up = bool(jobs.failed) and not self.keep_going
            if monotonic() >= due and not giving_up:
                resting = self.retries.resting()
                for job in jobs.startable(resting):
                    self._start(job, pool)
                rests = [self.retries.not_before[key] for key in resting & jobs.waiting.keys()]
                due = min(rests, default=float("inf"))
            resumed = self.retries.not_before.keys() & jobs.waiting.keys()
            if not jobs.running and not self._post_building and (not resumed or giving_up):
                return
            try:
                message = self._messages.get(timeout=TICK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(message, PostBuildResult):
                self._post_build_ended(message)
            elif isinstance(message, Exception):
                raise message
            elif isinstance(message, tuple):
                self._ended(*message)
                due = 0.0
            else:
                self.recorder.on_event(message)

    def _start(self, job: Job, pool: ThreadPoolExecutor) -> None:
        jobs, cores = self.jobs, self.jobs.cores[job.key]
        jobs.start(job)
        self.retries.attempts[job.key] += 1
        self._began[job.key] = monotonic()
        self.recorder.start_log(job, self.backend.command(job, cores), cores)
        attempt, expected = self.retries.attempts[job.key], jobs.expected[job.key]
        seconds = 0.0 if expected.basis == "unknown" else expected.seconds
        self.recorder.event(JobStarted(**job.ids, cores=cores, attempt=attempt, expected=seconds))
        pool.submit(self._work, job, cores)

    def _work(self, job: Job, cores: int) -> None:
        log = self.recorder.log_of(job)
        try:
            outcome: Outcome | BaseException = self.backend.build(job, cores, log, self._messages.put)
        except BaseException as error:
            outcome = error
        self._messages.put((job, outcome))

    def _ended(self, job: Job, outcome: Outcome | BaseException) -> None:
        if isinstance(outcome, KeyboardInterrupt):
            raise outcome
        del self.jobs.running[job.key]
        seconds = monotonic() - self._began[job.key]
        if isinstance(outcome, Problem):
            outcome = Outcome(False, log_tail=self.recorder.log_problem(job, outcome))
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome.ok:
            self._succeeded(job, outcome, seconds)
        else:
            self._fail(job, outcome, seconds)

    def _succeeded(self, job: Job, outcome: Outcome, seconds: float) -> None:
        self.jobs.done[job.key] = job
        attempt = Attempt(state="done", outputs=outcome.outputs, builder=outcome.builder)
        self.recorder.ended(job, attempt)
        self.recorder.keep(lambda: self.built(job, outcome))
        ended = JobEnded(
            **job.ids,
            state="done",
            seconds=seconds,
            outputs=outcome.outputs,
            builder=outcome.builder,
            counts=self.jobs.counts,
        )
        self.recorder.event(ended)
        self.recorder.note(job, outcome.note)
        self._post_building += 1
        self._post_builds.put((job, outcome.outputs))

    def _run_post_builds(self) -> None:
        while (built := self._post_builds.get()) is not None:
            try:
                self._messages.put(self.post_build.of(*built))
            except Exception as error:  # else the run would wait for it for ever
                self._messages.put(error)

    def _post_build_ended(self, done: PostBuildResult) -> None:
        self._post_building -= 1
        for verdict in done.verdicts:
            row = msgspec.structs.replace(verdict, derivation=done.job.derivation)
            self.recorder.keep(partial(self.recorder.record.note_verdict, row))
            self.recorder.event(RecipeVerified(name=verdict.name, ok=verdict.ok, detail=verdict.detail))
            if not verdict.ok:
                self._wrong[verdict.name] = verdict.detail
        self.recorder.note(done.job, done.failure)

    def _fail(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """Try a failed job again if that may help; else skip what needs it."""
        jobs, recorder, key = self.jobs, self.recorder, job.key
        diagnosis = diagnose_log(
            outcome.log_tail or read_text(recorder.log_of(job), lenient=True), self.catalog
        )
        summary = diagnosis.summary
        retry = self.retries.decide(job, outcome, diagnosis, jobs.cores[key])
        state: JobState = "waiting" if retry else "failed"
        recorder.ended(job, Attempt(state=state, builder=outcome.builder, error=summary))
        if retry is not None:
            jobs.cores[key] = retry.cores or jobs.cores[key]
            jobs.waiting[key] = job
            attempt = self.retries.attempts[key]
            again = JobRetried(
                **job.ids, detail=summary, attempt=attempt + 1, cores=retry.cores, seconds=retry.seconds
            )
            recorder.event(again)
            recorder.set_log_aside(job, attempt)
            return
        jobs.failed[key] = job
        self._failed[job.name] = diagnosis
        recorder.event(JobEnded(**job.ids, state="failed", seconds=seconds, detail=summary))
        for user in jobs.skip_users(job):
            why = f"needs {job.name}, which failed"
            recorder.ended(user, Attempt(state="skipped", error=why))
            recorder.event(JobEnded(**user.ids, state="skipped", detail=why))
