"""`torchsmith status`: how the last run stands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from torchsmith.api.recording import StatusReport, StatusRequest, status
from torchsmith.cli.console import next_build, next_step, paint, print_json, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import duration
from torchsmith.record import JobRow

EXAMPLE = "torchsmith init builds && torchsmith status -w builds"
STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "lost": "yellow", "running": "cyan"}


def run(*, request: StatusRequest, json: JsonOption = False) -> None:
    """Show the last run: what is done, running, failed and left, with the results."""
    report = status(request)
    if json:
        print_json(report)
    else:
        _print_status(report, request.workspace)


def _print_status(report: StatusReport, workspace: Path | None) -> None:
    """The run in a line, its jobs, and what to do next."""
    run, jobs, missing = report.run, report.jobs, report.missing
    if run is None:
        write("nothing has been built in this workspace yet")
        next_build(workspace=workspace)
        return
    selection = " ".join(run.selection) or "everything"
    write(f"run {run.id} ({selection}, {run.backend}) of {when(run.started)} {report.standing}")
    for job in jobs:
        facts = [duration(job.seconds) if job.seconds else "", job.builder, job.error]
        write(f"{state_of(job)}{job.name}{joined(facts)}")
        if job.state == "done" and job.outputs and not job.name.endswith(" more"):
            if job.outputs[0] in missing:
                write(f"        {job.outputs[0]} is no longer in the store", "yellow")
            else:
                write(f"        {job.outputs[0]}", "dim")
    counts = Counter(job.state for job in jobs)
    write(", ".join(f"{count} {state}" for state, count in counts.items()))
    if run.state != "done" and not (run.state == "running" and run.alive):
        next_step("build", "--resume", workspace=workspace, why="goes on with what is left")
    elif missing:
        next_step("build", *run.selection, workspace=workspace, why="builds what is missing again")


def when(moment: float) -> str:
    """A moment as people write it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def state_of(job: JobRow) -> str:
    """The state of a job, as the first column of its line."""
    return paint(f"{job.state:8}", STYLES.get(job.state, ""))


def joined(facts: Sequence[str]) -> str:
    """What is known of a job, at the end of its line."""
    return paint(f"  {', '.join(filter(None, facts))}", "dim") if any(facts) else ""
