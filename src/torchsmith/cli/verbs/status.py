"""`torchsmith status`: how the last run stands."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchsmith.cli.console import next_step, paint, print_json, write
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.remaining import duration
from torchsmith.edge.problem import Problem
from torchsmith.record import JobRow, RunRow

EXAMPLE = "torchsmith init builds && torchsmith status -w builds"
STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "lost": "yellow", "running": "cyan"}
STANDING = {
    "running": "is running",
    "done": "is done",
    "failed": "ended with failures",
    "stopped": "was stopped",
}


class StatusDocument(msgspec.Struct, frozen=True):
    """The last run, how it stands in words, its jobs, and results of them that the store no longer has."""

    run: RunRow | None
    standing: str
    jobs: Sequence[JobRow]
    missing: Sequence[str] = ()


def run(workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Show the last run: what is done, running, failed and left, with the results of what is done."""
    from torchsmith.build.start import workspace_record

    with workspace_record(workspace, read_only=True) as (_, record):
        last = next(iter(record.runs(1)), None)
        jobs = record.jobs(last.id) if last else []
        missing = _missing(jobs)
        if json:
            print_json(StatusDocument(last, _standing(last) if last else "", jobs, missing))
        else:
            _print_status(last, jobs, missing, workspace)


def _missing(jobs: Sequence[JobRow]) -> list[str]:
    """Results that are no longer there: collected as garbage, or deleted."""
    from torchsmith.nix.tool import find_nix

    outputs = [path for job in jobs if job.state == "done" for path in job.outputs[:1]]
    absent = [path for path in outputs if not os.path.lexists(path)]
    if not absent:
        return []
    try:
        nix = find_nix()
    except Problem:
        return absent
    return [path for path in absent if not os.path.lexists(nix.store_file(path))]


def _standing(run: RunRow) -> str:
    """How a run stands, in words."""
    return "was killed" if run.state == "running" and not run.alive else STANDING[run.state]


def _print_status(
    run: RunRow | None, jobs: Sequence[JobRow], missing: Sequence[str], workspace: Path | None
) -> None:
    """The run in a line, its jobs, and what to do next."""
    if run is None:
        write("nothing was built in this workspace yet")
        next_step("build", "--dry-run", workspace=workspace, why="what would it take?")
        return
    selection = " ".join(run.selection) or "everything"
    write(f"run {run.id} ({selection}, {run.backend}) of {when(run.started)} {_standing(run)}")
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
