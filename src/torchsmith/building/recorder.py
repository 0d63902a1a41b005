"""The record, the job logs and the events of a run."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time

import msgspec

from torchsmith.building.events import Event, RunNote
from torchsmith.building.job import Job, OnEvent
from torchsmith.building.processes import LogFile
from torchsmith.core.problem import Problem
from torchsmith.core.secrets import Redact, redactor
from torchsmith.record import Attempt, JobRow, Record


@dataclass
class Recorder:
    """Writes a run's record and logs and sends its events; an error here never fails a build."""

    record: Record
    number: int
    logs: Path
    on_event: OnEvent
    redact: Redact = field(default_factory=redactor)
    notes: list[str] = field(default_factory=list)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Write down what is to be done."""
        with contextlib.suppress(OSError):
            self.logs.mkdir(parents=True, exist_ok=True)
        rows = [
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
            for job in jobs
        ]
        self.keep(lambda: self.record.add_jobs(rows))

    def log_of(self, job: Job) -> Path:
        """Where a job's log is: its name, without what a file's name should not hold."""
        return self.logs / f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', job.name).strip('-')}.log"

    def start_log(self, job: Job, command: Sequence[str], cores: int) -> None:
        """A job starts: its log begins with what a person would type."""
        self.keep(lambda: self.record.job_started(self.number, job.key, cores))
        with contextlib.suppress(OSError):
            self.log_of(job).write_text(f"$ {self.redact(shlex.join(command))}\n")

    def log_problem(self, job: Job, problem: Problem) -> str:
        """Put a problem into a job's log; returns it if the log cannot take it."""
        with contextlib.closing(LogFile(self.log_of(job))) as log:
            log.write(f"error: {self.redact(str(problem))}\n")
        return log.lost

    def set_log_aside(self, job: Job, attempt: int) -> None:
        """Move the log of a failed attempt away: the next attempt is diagnosed by its own log alone."""
        log = self.log_of(job)
        with contextlib.suppress(OSError):
            log.replace(log.with_suffix(f".attempt{attempt}.log"))

    def ended(self, job: Job, attempt: Attempt) -> None:
        self.keep(lambda: self.record.job_ended(self.number, job.key, attempt))

    def note(self, job: Job, text: str) -> None:
        """Report something about a job that went well."""
        if text:
            self.notes.append(f"{job.name}: {self.redact(text)}")
            self.event(RunNote(**job.ids, detail=self.redact(text)))

    def keep(self, write: Callable[[], None]) -> None:
        """Write to the record; if that fails, the run continues with a note."""
        try:
            write()
        except Problem as problem:
            note = f"{problem.message}; builds continue, and the next run records what is in the store"
            if note not in self.notes:
                self.notes.append(note)
                self.event(RunNote(detail=note))

    def event(self, event: Event) -> None:
        self.on_event(msgspec.structs.replace(event, at=time()))
