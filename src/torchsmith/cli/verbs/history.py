"""`torchsmith history`: builds that ended, newest first."""

from __future__ import annotations

from typing import Annotated

from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith init builds && torchsmith history -w builds --limit 5"


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
    from torchsmith.cli.console import answer
    from torchsmith.cli.record_view import HistoryDocument, print_history

    with workspace_record(workspace, read_only=True) as (_, record):
        rows = record.history(name, limit)
    answer(HistoryDocument(rows), print_history, as_json=json)
