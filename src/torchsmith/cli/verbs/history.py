"""`torchsmith history`: builds that ended, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from torchsmith.cli.console import answer, paint, write
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option
from torchsmith.cli.remaining import duration
from torchsmith.cli.verbs.status import joined, state_of, when
from torchsmith.record import JobRow

EXAMPLE = "torchsmith init builds && torchsmith history -w builds --limit 5"


class HistoryDocument(msgspec.Struct, frozen=True):
    """Builds that ended, the latest first."""

    builds: Sequence[JobRow]


def run(
    name: Annotated[str, Argument("A job's name; without it, all jobs.", metavar="[NAME]")] = "",
    limit: Annotated[int, Option("--limit", "-n", "At most so many.", min=1)] = 20,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show builds that ended: how long they took, where, and why they failed.

    Estimates of later runs come from here.
    """
    from torchsmith.build.start import workspace_record

    with workspace_record(workspace, read_only=True) as (_, record):
        rows = record.history(name, limit)
    answer(HistoryDocument(rows), _print_history, as_json=json)


def _print_history(history: HistoryDocument) -> None:
    """A line a build."""
    if not history.builds:
        write("no build has ended here yet")
    for job in history.builds:
        facts = [job.builder and f"on {job.builder}", f"{job.cores} cores" if job.cores else "", job.error]
        ended = paint(f"{when(job.ended or 0)}  ", "dim")
        write(f"{ended}{state_of(job)}{duration(job.seconds):>12}  {job.name}{joined(facts)}")
