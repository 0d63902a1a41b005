"""`torchsmith diagnose LOG or NAME`: why a build failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Argument
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import Printer, exit_if, next_step, paint, print_json, quote, write
from torchsmith.core.problem import Empty
from torchsmith.repair.diagnose import Diagnosis, diagnose

EXAMPLE = "torchsmith diagnose sample"


def run(
    log: Annotated[
        Path,
        Argument("A build's log, a job's name, - for standard input, or the word sample.", metavar="LOG"),
    ],
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Say why a build failed: the known error, its cause and cure, and the ten lines that matter.

    The known errors are the catalog's; a workspace adds its own in [bold]catalog/errors.toml[/bold]. The exit
    code is 1 when no known error matches. Each verdict says how sure it is.
    """
    from torchsmith.api.by_name import is_name, log_named
    from torchsmith.api.samples import or_sample
    from torchsmith.core.files import read_text
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    log = or_sample(log, "build.log")
    text = sys.stdin.read() if str(log) == "-" else read_text(log_named(log, opened), lenient=True)
    if not text.strip():
        raise Empty(f"{'standard input' if str(log) == '-' else log} is empty: it says nothing of a failure")
    found = diagnose(text, opened.catalog.errors.values())
    if json:
        print_json(found)
    else:
        print_diagnosis(found)
    exit_if(not found.entry)
    if opened.root is not None and is_name(log):
        next_step("build", "--resume", workspace=workspace, why="once it is mended")


POLICIES = {
    "retry": "torchsmith tries it again",
    "retry-fewer-jobs": "torchsmith tries it again with half the compilers",
    "stop": "trying again would not help",
}
SURE = {"certain": "", "likely": "likely", "guess": "a guess: nothing near the end says why"}


def print_diagnosis(found: Diagnosis, name: str = "", line: Printer = write) -> None:
    """The answer first, the evidence after."""
    stream = sys.stdout if line is write else sys.stderr
    sure = f", {SURE[found.sure]}" if SURE[found.sure] else ""
    title = (f"{name}: " if name else "") + paint(found.title, "bold red", stream)
    line(title + paint(f"  [{found.kind}{sure}]", "dim", stream))
    rows = {"cause": found.cause, "cure": found.cure, "policy": POLICIES[found.policy]}
    for label, words in rows.items():
        line(paint(f"  {label:7}", "cyan", stream) + words, hang=9)
    if found.lines:
        line(f"  around line {found.line_number}:" if found.line_number else "  the end:", "dim")
        for text in found.lines:
            quote(text, "  │ ", line)
