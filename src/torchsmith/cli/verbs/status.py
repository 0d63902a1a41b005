"""`torchsmith status`: how the last run stands."""

from __future__ import annotations

from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith init builds && torchsmith status -w builds"


def run(workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Show the last run: what is done, running, failed and left, with the results of what is done."""
    from torchsmith.build.start import workspace_record
    from torchsmith.cli.console import print_json
    from torchsmith.cli.record_view import StatusDocument, print_status, standing

    with workspace_record(workspace, read_only=True) as (_, record):
        last = next(iter(record.runs(1)), None)
        jobs = record.jobs(last.id) if last else []
        if json:
            print_json(StatusDocument(last, standing(last) if last else "", jobs))
        else:
            print_status(last, jobs, workspace)
