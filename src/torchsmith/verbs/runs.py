"""`torchsmith runs`: the last run, earlier builds, and their logs."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec

from torchsmith.building.by_name import last_log, workspace_record
from torchsmith.cli.console import next_build, next_step, paint, print_json, warn, write
from torchsmith.cli.options import JsonOption, WorkspaceOption, complete_jobs
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import NotFound, did_you_mean
from torchsmith.core.text import counted, duration
from torchsmith.record import JobRow, RunRow

EXAMPLE = "torchsmith init builds && torchsmith runs -w builds"
LOG_EXAMPLE = "torchsmith init builds && torchsmith runs log -w builds"
STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "lost": "yellow", "running": "cyan"}
STATES = {
    "running": "is running",
    "done": "is done",
    "failed": "ended with failures",
    "stopped": "was stopped",
    "killed": "was killed",
}


JobWord = Annotated[str, Argument("A job's name; by default all.", metavar="[NAME]", complete=complete_jobs)]


@dataclass(frozen=True, kw_only=True)
class RunsRequest(Request):
    """The jobs of the last run, or with `history` the builds that have ended."""

    name: JobWord = ""
    history: Annotated[
        bool, Option("Show the last 50 builds that have ended, of all runs, newest first.")
    ] = False
    workspace: WorkspaceOption = None


class RunsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last run with its jobs; with `history` builds that have ended, newest first."""

    FORMAT: ClassVar = 2
    run: RunRow | None  # null with --history, and before the first run
    state: Literal["running", "done", "failed", "stopped", "killed"] | None = None  # of the run
    jobs: Sequence[JobRow]
    missing: Sequence[str] = ()  # results of the run that are no longer in the store


def runs(request: RunsRequest = RunsRequest()) -> RunsReport:
    """The jobs of the last run, or the builds that have ended. Raises NotFound if none has the name."""
    name = request.name
    with workspace_record(request.workspace, read_only=True) as (_, record):
        last = None if request.history else next(iter(record.runs(1)), None)
        if last is None:
            jobs, known, where = record.history(name), record.logged_names(), "has ever been built here"
        else:
            of_run, where = record.jobs(last.id), f"is in run {last.id}, the last one"
            jobs, known = [job for job in of_run if name in ("", job.name)], [job.name for job in of_run]
    if name and not jobs:
        hint = did_you_mean(name, known) or "see torchsmith runs --history"
        raise NotFound(f"no job {name} {where}", hint=hint)
    if last is None:
        return RunsReport(run=None, jobs=jobs)
    killed = last.state == "running" and not last.alive
    return RunsReport(run=last, state="killed" if killed else last.state, jobs=jobs, missing=_missing(jobs))


def _missing(jobs: Sequence[JobRow]) -> list[str]:
    """Results that were collected as garbage, or deleted."""
    from torchsmith.nix.tool import stored

    outputs = [path for job in jobs if job.state == "done" for path in job.outputs[:1]]
    return [path for path in outputs if not os.path.lexists(stored(path))]


@dataclass(frozen=True, kw_only=True)
class LogRequest(Request):
    """A job whose log is printed; without a name, the jobs that have a log."""

    name: JobWord = ""
    workspace: WorkspaceOption = None


def log(request: LogRequest = LogRequest()) -> Path | list[str]:
    """The log of a job's last build; without a name, the names of all jobs that have one."""
    with workspace_record(request.workspace, read_only=True) as (opened, record):
        return last_log(record, request.name, opened) if request.name else record.logged_names()


def run(*, request: RunsRequest, json: JsonOption = False) -> None:
    """Show the last run: what is done, running, failed and remaining, with the results.

    [bold]runs --history[/bold] shows the builds of all runs: how long they took, where, and why they failed;
    later runs are estimated from them. [bold]runs log NAME[/bold] prints the log of a job's last build.
    """
    report = runs(request)
    if json:
        print_json(report)
    elif request.history:
        _print_history(report.jobs)
    else:
        _print_run(report, request.workspace)


def _print_run(report: RunsReport, workspace: Path | None) -> None:
    last, jobs, missing = report.run, report.jobs, report.missing
    if last is None or report.state is None:
        write("nothing has been built in this workspace yet")
        next_build(workspace=workspace)
        return
    selection = " ".join(last.selection) or "everything"
    write(f"run {last.id} ({selection}, {last.backend}) of {_when(last.started)} {STATES[report.state]}")
    for job in jobs:
        facts = [duration(job.seconds) if job.seconds else "", job.builder, job.error]
        write(f"{_state(job)}{job.name}{_joined(facts)}")
        if job.state == "done" and job.outputs and len(job.targets) < 2:
            if job.outputs[0] in missing:
                write(f"        {job.outputs[0]} is no longer in the store", "yellow")
            else:
                write(f"        {job.outputs[0]}", "dim")
    counts = Counter(job.state for job in jobs)
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    write(states or "no jobs: everything was in the store or in a binary cache")
    unfinished = report.state not in ("done", "running")
    if unfinished or missing:
        why = "builds what remains" if unfinished else "builds what is missing again"
        next_step("build", *last.selection, workspace=workspace, nixpkgs=last.nixpkgs, why=why)


def _print_history(builds: Sequence[JobRow]) -> None:
    if not builds:
        write("no build has finished here yet")
    for job in builds:
        facts = [
            job.builder and f"on {job.builder}",
            counted(job.cores, "core") if job.cores else "",
            job.error,
        ]
        ended = paint(f"{_when(job.ended or 0)}  ", "dim")
        write(f"{ended}{_state(job)}{duration(job.seconds):>12}  {job.name}{_joined(facts)}")


def print_log(*, request: LogRequest) -> None:
    """Print the log of a job's last build."""
    from torchsmith.core.files import read_text
    from torchsmith.core.text import printable
    from torchsmith.nix.errors import plain

    found = log(request)
    if isinstance(found, Path):
        text = printable(plain(read_text(found, lenient=True)), "\n\t")
    else:
        text = "".join(f"{name}\n" for name in found)
    sys.stdout.write(text)
    if not found:
        warn("nothing has been built in this workspace yet")


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _state(job: JobRow) -> str:
    return paint(f"{job.state:8}", STYLES.get(job.state, ""))


def _joined(facts: Sequence[str]) -> str:
    return paint(f"  {', '.join(filter(None, facts))}", "dim") if any(facts) else ""


COMMANDS = {
    "log": (print_log, LOG_EXAMPLE),
}
