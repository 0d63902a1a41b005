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
    from torchsmith.cli.console import answer
    from torchsmith.cli.diagnosis_view import print_diagnosis
    from torchsmith.cli.next_step import next_step
    from torchsmith.cli.samples import or_sample
    from torchsmith.edge.files import read_text
    from torchsmith.repair.diagnose import diagnose
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    log = or_sample(log, "build.log")
    text = sys.stdin.read() if str(log) == "-" else read_text(log_named(log, opened), lenient=True)
    found = diagnose(text, opened.catalog.errors.values())
    answer(found, print_diagnosis, as_json=json)
    if not found.error:
        raise SystemExit(1)
    if not json and opened.root is not None and is_name(log):
        next_step("build", "--resume", workspace=workspace, why="once it is mended")
