"""What the record says, for people."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchsmith.cli.next_step import next_step
from torchsmith.cli.paint import paint, write
from torchsmith.cli.remaining import duration
from torchsmith.record import JobRow, RunRow

STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "lost": "yellow", "running": "cyan"}


def when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def standing(run: RunRow) -> str:
    """How a run stands, in words."""
    if run.state == "running" and not run.alive:
        return "was killed"
    return {
        "running": "is running",
        "done": "is done",
        "failed": "ended with failures",
        "stopped": "was stopped",
    }[run.state]


def print_status(run: RunRow | None, jobs: Sequence[JobRow], workspace: Path | None = None) -> None:
    """The run in a line, its jobs, and what to do next."""
    if run is None:
        write("nothing was built in this workspace yet")
        next_step("build", "--dry-run", workspace=workspace, why="what would it take?")
        return
    selection = " ".join(run.selection) or "everything"
    write(f"run {run.id} ({selection}, {run.backend}) of {when(run.started)} {standing(run)}")
    for job in jobs:
        facts = [duration(job.seconds) if job.seconds else "", job.builder, job.error]
        write(f"{_state(job)}{job.name}{_facts(facts)}")
        if job.state == "done" and job.outputs and not job.name.endswith(" more"):
            write(f"        {job.outputs[0]}", "dim")
    counts = Counter(job.state for job in jobs)
    write(", ".join(f"{count} {state}" for state, count in counts.items()))
    if run.state != "done" and not (run.state == "running" and run.alive):
        next_step("build", "--resume", workspace=workspace, why="goes on with what is left")


def _state(job: JobRow) -> str:
    return paint(f"{job.state:8}", STYLES.get(job.state, ""))


def _facts(facts: Sequence[str]) -> str:
    return paint(f"  {', '.join(filter(None, facts))}", "dim") if any(facts) else ""


class StatusDocument(msgspec.Struct, frozen=True):
    """The last run, how it stands in words, and its jobs."""

    run: RunRow | None
    standing: str
    jobs: Sequence[JobRow]


class HistoryDocument(msgspec.Struct, frozen=True):
    """Builds that ended, the latest first."""

    builds: Sequence[JobRow]


def print_history(history: HistoryDocument) -> None:
    """A line a build."""
    if not history.builds:
        write("no build has ended here yet")
    for job in history.builds:
        facts = [job.builder and f"on {job.builder}", f"{job.cores} cores" if job.cores else "", job.error]
        ended = paint(f"{when(job.ended or 0)}  ", "dim")
        write(f"{ended}{_state(job)}{duration(job.seconds):>12}  {job.name}{_facts(facts)}")
