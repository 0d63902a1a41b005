"""`torchsmith diagnose LOG or NAME`: why a build failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Argument

EXAMPLE = "torchsmith diagnose sample"


def run(
    log: Annotated[
        Path,
        Argument(
            "A build's log, a job's name, - for standard input, or the word sample.",
            metavar="LOG",
            allow_dash=True,
        ),
    ],
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Say why a build failed: the known error, its cause and cure, and the ten lines that matter.

    The known errors are the catalog's; a workspace adds its own in [bold]catalog/errors.toml[/bold]. The exit
    code is 1 when no known error matches. Each verdict says how sure it is.
    """
    from torchsmith.cli.by_name import is_name, log_named
    from torchsmith.cli.console import print_json
    from torchsmith.cli.diagnosis_view import print_diagnosis
    from torchsmith.cli.next_step import next_step
    from torchsmith.cli.samples import or_sample
    from torchsmith.edge.files import read_text
    from torchsmith.edge.problem import Empty
    from torchsmith.repair.diagnose import diagnose
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    log = or_sample(log, "build.log")
    text = sys.stdin.read() if str(log) == "-" else read_text(log_named(log, opened), lenient=True)
    if not text.strip():
        raise Empty(f"{'standard input' if str(log) == '-' else log} is empty: it says nothing of a failure")
    found = diagnose(text, opened.catalog.errors.values())
    if json:
        print_json(found, format=2)
    else:
        print_diagnosis(found)
    if not found.entry:
        raise SystemExit(1)
    if not json and opened.root is not None and is_name(log):
        next_step("build", "--resume", workspace=workspace, why="once it is mended")
