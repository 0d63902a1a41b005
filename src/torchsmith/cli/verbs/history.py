"""`torchsmith history`: builds that ended, newest first."""

from __future__ import annotations

from typing import Annotated

from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith init builds && torchsmith history -w builds --limit 5"


def run(
    name: Annotated[str, Argument(metavar="[NAME]", help="A job's name; without it, all jobs.")] = "",
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many.")] = 20,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show builds that ended: how long they took, where, and why they failed.

    Estimates of later runs come from here.
    """
    from torchsmith.build.start import workspace_record
    from torchsmith.cli.console import print_json
    from torchsmith.cli.record_view import HistoryDocument, print_history

    with workspace_record(workspace, read_only=True) as (_, record):
        rows = record.history(name, limit)
        if json:
            print_json(HistoryDocument(rows))
        else:
            print_history(rows)
