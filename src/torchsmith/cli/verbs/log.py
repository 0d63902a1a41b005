"""`torchsmith log NAME`: the log of a job's last build."""

from __future__ import annotations

import sys
from typing import Annotated

from torchsmith.cli.console import warn
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.params import Argument, Option
from torchsmith.edge.words import printable

EXAMPLE = "torchsmith init builds && torchsmith log -w builds"


def run(
    name: Annotated[
        str, Argument("A job's name; without it, the names that have a log.", metavar="[NAME]")
    ] = "",
    path: Annotated[bool, Option("Print where the log is instead.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Print the log of a job's last build."""
    from torchsmith.api.by_name import last_log
    from torchsmith.build.start import workspace_record
    from torchsmith.edge.files import read_text
    from torchsmith.nix.errors import plain

    with workspace_record(workspace, read_only=True) as (opened, record):
        if not name:
            names = record.logged_names()
            sys.stdout.write("".join(f"{known}\n" for known in names))
            if not names:
                warn("nothing was built in this workspace yet")
            return
        log = last_log(record, name, opened)
    sys.stdout.write(f"{log}\n" if path else printable(plain(read_text(log, lenient=True)), "\n\t"))
