"""`torchsmith test PATH`: a built package, run on this machine."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

from torchsmith.artifact.trial import Trial, try_out
from torchsmith.artifact.trial import junit as junit_xml
from torchsmith.cli.console import answer, err, exit_if, next_step, paint, write
from torchsmith.cli.options import JsonOption, VariantOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith test sample --junit results.xml"
MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


def run(
    path: Annotated[
        Path,
        Argument(
            "A cell's name, a result link, a store path, a site-packages folder, or the word sample.",
            metavar="PATH",
        ),
    ],
    variant: VariantOption = None,
    python: Annotated[Path | None, Option("The interpreter to run it with; else its own inputs'.")] = None,
    timeout: Annotated[float, Option("Seconds after which it is ended.", min=1)] = 600,
    junit: Annotated[Path | None, Option("Write the results to this file as JUnit XML.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Run a built package: import, versions, CPU and every GPU against plain Python.

    It runs in a process of its own, so a crash is a result and not an end. Steps that this machine cannot
    try are skipped and say why. The exit code is 1 when a step failed.
    """
    from torchsmith.artifact.interpreter import interpreter_for
    from torchsmith.artifact.verdict import promised
    from torchsmith.cli.by_name import build_and_name
    from torchsmith.cli.samples import or_sample
    from torchsmith.edge.files import write_atomic
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    word = or_sample(path, "build")
    if word != path:
        python = python or Path(sys.executable)  # a toy runs with any
    path, variant = build_and_name(word, variant, opened)
    promise = promised(variant, path, opened.catalog)
    interpreter = interpreter_for(path, opened.catalog, python)
    with err().status(f"running it with {interpreter.python}"):
        trial = try_out(path, interpreter, promise, opened.catalog, timeout)
    if junit:
        write_atomic(junit, junit_xml(trial))
    answer(trial, _print_trial, as_json=json)
    exit_if(not trial.ok)
    if opened.settings.org and path != word:
        next_step("publish", word.name, workspace=workspace)


def _print_trial(trial: Trial) -> None:
    """Every step with its outcome, and the sum."""
    write(trial.variant or trial.path, "bold")
    facts = trial.facts
    if facts:
        cuda = f", CUDA {facts['cuda']}" if facts.get("cuda") else ""
        python = f"Python {facts['python']}, CPU dispatch {facts['cpu_capability']}"
        write(f"torch {facts['torch']}{cuda}, {python}")
    for one in trial.results:
        mark, style = MARKS[one.outcome]
        detail = f": {one.detail}" if one.detail else ""
        write(f"{paint(mark, style)} {one.step}{paint(detail, 'dim' if one.outcome == 'passed' else '')}")
        if one.hint:
            write(f"    {one.hint}", "cyan")
    counts = Counter[str](one.outcome for one in trial.results)
    text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in MARKS if counts[outcome])
    write(text, "bold green" if trial.ok else "bold red")
