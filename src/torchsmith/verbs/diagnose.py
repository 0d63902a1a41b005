"""`torchsmith diagnose LOG or NAME`: why a build failed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from torchsmith.building.by_name import is_name, log_named
from torchsmith.cli.console import Printer, answer, exit_if, next_step, paint, quote, write
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.request import Argument, Request
from torchsmith.cli.samples import or_sample
from torchsmith.core.files import HEAD_BYTES, read_text
from torchsmith.core.problem import Empty, Invalid
from torchsmith.core.secrets import redactor
from torchsmith.repair.diagnose import Diagnosis, diagnose_log
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith diagnose sample"
STANDARD_INPUT = Path("-")
HINT = "give all of it, errors too: COMMAND 2>&1 | torchsmith diagnose -"


@dataclass(frozen=True, kw_only=True)
class DiagnoseRequest(Request):
    """The log of a build that failed."""

    log: Annotated[
        Path,
        Argument("A build's log, a job's name, - for standard input, or the word sample.", metavar="LOG"),
    ]
    workspace: WorkspaceOption = None


def diagnose(request: DiagnoseRequest) -> Diagnosis:
    """The known error in a log, or what its last lines suggest. Raises Empty for a log without
    text, Invalid for a folder, a file that is not text and a text in which no error is recognised."""
    opened = open_workspace(request.workspace)
    if request.log == STANDARD_INPUT:
        text, place = sys.stdin.buffer.read().decode(errors="replace"), "standard input"
    else:
        log = log_named(or_sample(request.log, "build.log"), opened)
        if log.is_dir():
            raise Invalid(f"{request.log} is a folder, not a build's log", hint=HINT)
        text, place = read_text(log, lenient=True), str(request.log)
    if not text.strip():
        raise Empty(f"{place} is empty", hint=HINT)
    if "\0" in text[:HEAD_BYTES]:  # as git decides it
        hint = "give a build's log, unpacked; torchsmith verify reads wheels and libraries"
        raise Invalid(f"{place} is not text", hint=hint)
    diagnosis = diagnose_log(redactor()(text), opened.catalog)
    if not diagnosis.line_number:
        hint = HINT
        if request.log != STANDARD_INPUT and is_name(request.log):
            hint = "torchsmith runs shows how its build ended"
        raise Invalid(f"no line of {place} is recognised as an error", hint=hint)
    if not diagnosis.entry and opened.root is not None:
        fix = f"{diagnosis.fix} Once understood, add it to catalog/errors.toml of the workspace."
        return replace(diagnosis, fix=fix)
    return diagnosis


def run(*, request: DiagnoseRequest, json: JsonOption = False) -> None:
    """Explain why a build failed: the known error, its cause and fix, and the lines that show it.

    Known errors are in the catalog; a workspace adds its own in [bold]catalog/errors.toml[/bold]. The exit
    code is 1 when no known error matches. Each answer says how certain it is.
    """
    diagnosis = diagnose(request)
    answer(diagnosis, print_diagnosis, as_json=json)
    exit_if(not diagnosis.entry)
    if is_name(request.log) and str(request.log) not in ("sample", "-"):
        next_step("runs", workspace=request.workspace, why="shows the command that builds what remains")


POLICIES = {
    "retry": "torchsmith does it once more",
    "retry-fewer-jobs": "torchsmith does it once more, with half as many compilers",
    "stop": "would not help",
}
SURE = {
    "certain": "",
    "likely": "likely",
    "guess": "a guess: nothing near the end of the log gives the reason",
}


def print_diagnosis(diagnosis: Diagnosis, name: str = "", line: Printer = write) -> None:
    """The answer first, the evidence after."""
    stream = sys.stdout if line is write else sys.stderr
    how = SURE[diagnosis.sure] if diagnosis.entry else "not known"
    sure = f", {how}" if how else ""
    title = (f"{name}: " if name else "") + paint(diagnosis.title, "bold red", stream)
    line(title + paint(f"  [{diagnosis.kind}{sure}]", "dim", stream))
    rows = {"cause": diagnosis.cause, "fix": diagnosis.fix}
    if diagnosis.policy != "stop" or diagnosis.sure == "certain":
        rows["retry"] = POLICIES[diagnosis.policy]
    for label, value in rows.items():
        line(paint(f"  {label:7}", "cyan", stream) + value, hang=9)
    if diagnosis.lines:
        line(f"  around line {diagnosis.line_number}:" if diagnosis.line_number else "  the end:", "dim")
        for text in diagnosis.lines:
            quote(text, "  │ ", line)
