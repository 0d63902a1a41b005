"""What the record says, for people."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from torchsmith.cli.build_view import duration
from torchsmith.cli.by_name import command
from torchsmith.cli.console import out
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
    console = out()
    if run is None:
        console.print("nothing was built in this workspace yet")
        return
    selection = " ".join(run.selection) or "everything"
    console.print(
        f"run {run.id} ({selection}, {run.backend}) of {when(run.started)} {standing(run)}", markup=False
    )
    for job in jobs:
        row = Text(f"{job.state:8}", style=STYLES.get(job.state, "")).append(f"{job.name}", style="default")
        facts = [duration(job.seconds) if job.seconds else "", job.builder, job.error]
        row.append(f"  {', '.join(filter(None, facts))}" if any(facts) else "", style="dim")
        console.print(row, soft_wrap=True)
        if job.state == "done" and job.outputs and not job.name.endswith(" more"):
            console.print(Text(f"        {job.outputs[0]}", style="dim"), soft_wrap=True)
    counts = Counter(job.state for job in jobs)
    console.print(", ".join(f"{count} {state}" for state, count in counts.items()))
    if run.state != "done" and not (run.state == "running" and run.alive):
        words = command("build", "--resume", workspace=workspace)
        console.print(Text(f"{words} goes on with what is left"), soft_wrap=True)


class StatusDocument(msgspec.Struct, frozen=True):
    """The last run, how it stands in words, and its jobs."""

    run: RunRow | None
    standing: str
    jobs: Sequence[JobRow]


class HistoryDocument(msgspec.Struct, frozen=True):
    """Builds that ended, the latest first."""

    builds: Sequence[JobRow]


def print_history(rows: Sequence[JobRow]) -> None:
    """A line a build."""
    console = out()
    if not rows:
        console.print("no build has ended here yet")
    for job in rows:
        row = Text(f"{when(job.ended or 0)}  ", style="dim")
        row.append(f"{job.state:8}", style=STYLES.get(job.state, "")).append(
            f"{duration(job.seconds):>12}  {job.name}"
        )
        facts = [job.builder and f"on {job.builder}", f"{job.cores} cores" if job.cores else "", job.error]
        row.append(f"  {', '.join(filter(None, facts))}" if any(facts) else "", style="dim")
        console.print(row, soft_wrap=True)
