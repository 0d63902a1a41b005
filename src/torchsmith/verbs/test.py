"""`torchsmith test PATH`: a built package, run on this machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from torchsmith.api.artifact import TestRequest, test
from torchsmith.artifact.smoke_test import SmokeTest
from torchsmith.artifact.smoke_test import junit as junit_xml
from torchsmith.cli.console import answer, exit_if, next_step, paint, write
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal

EXAMPLE = "torchsmith test sample --junit results.xml"
MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


def run(
    *,
    request: TestRequest,
    junit: Annotated[Path | None, Option("Write the results to this file as JUnit XML.")] = None,
    json: JsonOption = False,
) -> None:
    """Run a built package: import it, check versions, compute on the CPU and on every GPU.

    It runs in a process of its own, so a crash is a result, not the end. Steps that this machine cannot run
    are skipped, with the reason. The exit code is 1 when a step failed.
    """
    from torchsmith.building.by_name import is_name
    from torchsmith.core.files import write_atomic
    from torchsmith.workspace.load import open_workspace

    with Terminal().status(f"running {request.path}"):
        trial = test(request)
    if junit:
        write_atomic(junit, junit_xml(trial))
    answer(trial, _print_trial, as_json=json)
    exit_if(not trial.ok)
    if is_name(request.path) and open_workspace(request.workspace).settings.org:
        next_step("publish", request.path.name, workspace=request.workspace)


def _print_trial(trial: SmokeTest) -> None:
    """Every step with its outcome, and the sum."""
    write(trial.variant or trial.path, "bold")
    facts = trial.facts
    if facts:
        cuda = f", CUDA {facts['cuda']}" if facts.get("cuda") else ""
        cuda += f", HIP {facts['hip']}" if facts.get("hip") else ""
        python = f"Python {facts['python']}, CPU dispatch {facts['cpu_capability']}"
        write(f"torch {facts['torch']}{cuda}, {python}")
    for result in trial.results:
        mark, style = MARKS[result.outcome]
        detail = f": {result.detail}" if result.detail else ""
        write(
            f"{paint(mark, style)} {result.step}{paint(detail, 'dim' if result.outcome == 'passed' else '')}"
        )
        if result.hint:
            write(f"    {result.hint}", "cyan")
    counts = Counter[str](result.outcome for result in trial.results)
    text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in MARKS if counts[outcome])
    write(text, "bold green" if trial.ok else "bold red")
