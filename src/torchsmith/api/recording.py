"""What a workspace remembers: its last run, and builds that ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.options import WorkspaceOption
from torchsmith.record import JobRow, RunRow

STANDING = {
    "running": "is running",
    "done": "is done",
    "failed": "ended with failures",
    "stopped": "was stopped",
}


@dataclass(frozen=True, kw_only=True)
class StatusRequest:
    """Whose last run."""

    workspace: WorkspaceOption = None


class StatusReport(msgspec.Struct, frozen=True):
    """The last run, how it stands in words, its jobs, and results of them that the store no longer has."""

    run: RunRow | None
    standing: str
    jobs: Sequence[JobRow]
    missing: Sequence[str] = ()


def status(request: StatusRequest) -> StatusReport:
    """How the last run stands."""
    from torchsmith.building.start import workspace_record

    with workspace_record(request.workspace, read_only=True) as (_, record):
        last = next(iter(record.runs(1)), None)
        jobs = record.jobs(last.id) if last else []
    killed = last is not None and last.state == "running" and not last.alive
    standing = "was killed" if killed else STANDING[last.state] if last else ""
    return StatusReport(last, standing, jobs, _missing(jobs))


def _missing(jobs: Sequence[JobRow]) -> list[str]:
    """Results that are no longer there: collected as garbage, or deleted."""
    from torchsmith.nix.tool import stored

    outputs = [path for job in jobs if job.state == "done" for path in job.outputs[:1]]
    return [path for path in outputs if not os.path.lexists(stored(path))]


@dataclass(frozen=True, kw_only=True)
class HistoryRequest:
    """Which builds that ended."""

    name: Annotated[str, Argument("A job's name; without it, all jobs.", metavar="[NAME]")] = ""
    limit: Annotated[int, Option("--limit", "-n", "Show at most this many.", min=1)] = 20
    workspace: WorkspaceOption = None


class HistoryReport(msgspec.Struct, frozen=True):
    """Builds that ended, the latest first."""

    builds: Sequence[JobRow]


def history(request: HistoryRequest) -> HistoryReport:
    """Builds that ended: how long they took, where, and why they failed."""
    from torchsmith.building.start import workspace_record

    with workspace_record(request.workspace, read_only=True) as (_, record):
        return HistoryReport(record.history(request.name, request.limit))


@dataclass(frozen=True, kw_only=True)
class LogRequest:
    """Whose log; without a name, which there are."""

    name: Annotated[
        str, Argument("A job's name; without it, the names that have a log.", metavar="[NAME]")
    ] = ""
    workspace: WorkspaceOption = None


class LogReport(msgspec.Struct, frozen=True):
    """Where the log of a job's last build is, or the names of all jobs that have one."""

    path: Path | None
    names: Sequence[str] = ()

    def text(self) -> str:
        """The log without terminal escapes; empty where no job was named."""
        from torchsmith.core.files import read_text
        from torchsmith.core.text import printable
        from torchsmith.nix.errors import plain

        return printable(plain(read_text(self.path, lenient=True)), "\n\t") if self.path else ""


def log(request: LogRequest) -> LogReport:
    """The log of a job's last build."""
    from torchsmith.building.by_name import last_log
    from torchsmith.building.start import workspace_record

    with workspace_record(request.workspace, read_only=True) as (opened, record):
        if not request.name:
            return LogReport(None, record.logged_names())
        return LogReport(last_log(record, request.name, opened))
