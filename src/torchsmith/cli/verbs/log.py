"""`torchsmith log NAME`: the log of a job's last build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.options import WorkspaceOption

EXAMPLE = "torchsmith init builds && torchsmith log -w builds"


def run(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A job's name; without it, the names that have a log.")
    ] = "",
    path: Annotated[bool, typer.Option("--path", help="Print where the log is instead.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print the log of a job's last build."""
    from torchsmith.build.start import workspace_record
    from torchsmith.edge.files import read_text
    from torchsmith.edge.problem import Exit, Problem, did_you_mean

    with workspace_record(workspace, read_only=True) as (_, record):
        if not name:
            sys.stdout.write("".join(f"{known}\n" for known in record.logged_names()))
            return
        row = record.last_log(name)
        if row is None:
            known = record.logged_names()
            hint = did_you_mean(name, known) if known else "nothing was built in this workspace yet"
            raise Problem(f"{name} was never built here", hint=hint)
        log = Path(row.log)
    if not log.is_file():
        raise Problem(f"the log of {name} is gone: {log}", exit=Exit.LACKING)
    sys.stdout.write(f"{log}\n" if path else read_text(log, lenient=True))
