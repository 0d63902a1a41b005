"""`torchsmith log NAME`: the log of a job's last build."""

from __future__ import annotations

import sys
from typing import Annotated

from torchsmith.api.recording import LogRequest, log
from torchsmith.cli.console import warn
from torchsmith.cli.fields import Option

EXAMPLE = "torchsmith init builds && torchsmith log -w builds"


def run(
    *,
    request: LogRequest,
    path: Annotated[bool, Option("Print the path of the log.")] = False,
) -> None:
    """Print the log of a job's last build."""
    report = log(request)
    if report.path is not None:
        sys.stdout.write(f"{report.path}\n" if path else report.text())
        return
    sys.stdout.write("".join(f"{name}\n" for name in report.names))
    if not report.names:
        warn("nothing has been built in this workspace yet")
