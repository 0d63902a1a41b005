"""`torchsmith test`: run a built package on this machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from torchsmith.artifact.smoke_test import SmokeTest
from torchsmith.building.by_name import build_to_run, is_name
from torchsmith.cli.console import answer, exit_if, next_step, paint, write
from torchsmith.cli.options import JsonOption, VariantOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import MissingRequirement
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith test .venv"
MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


@dataclass(frozen=True, kw_only=True)
class TestRequest(Request):
    """Which build to run, with which Python, and for how long."""

    path: Annotated[
        Path,
        Argument(
            "A build's name, an environment, a result link, a store path or a site-packages folder.",
            metavar="PATH",
        ),
    ]
    variant: VariantOption = None
    python: Annotated[
        Path | None, Option("The Python to run it with; by default the one among its inputs.")
    ] = None
    timeout: Annotated[float, Option("Stop after this many seconds.", min=1)] = 600
    workspace: WorkspaceOption = None


def test(request: TestRequest, reporter: Reporter = SILENT) -> SmokeTest:  # noqa: PT028
    """Import a built package and use it on the CPU and every GPU, in a process of its own."""
    from torchsmith.artifact.interpreter import interpreter_for
    from torchsmith.artifact.smoke_test import smoke_test
    from torchsmith.artifact.verdict import promised

    opened = open_workspace(request.workspace)
    found = build_to_run(request.path, opened)
    path = found.path
    promise = promised(request.variant or found.cell, path, opened.catalog)
    try:
        interpreter = interpreter_for(path, opened.catalog, request.python)
    except MissingRequirement as problem:
        hint = f"--python PATH names one{problem.hint and f'; {problem.hint}'}"
        raise problem.replace(hint=hint) from problem
    with reporter.status(f"running {request.path}"):
        return smoke_test(path, interpreter, promise, opened.catalog, request.timeout)


def run(
    *,
    request: TestRequest,
    json: JsonOption = False,
) -> None:
    """Run a built package: import it, check versions, compute on the CPU and on every GPU.

    It runs in a process of its own, so that a crash is a result. Steps that this machine cannot run are
    skipped, with the reason. The exit code is 1 if a step failed.
    """
    trial = test(request, Terminal())
    answer(trial, _print_trial, as_json=json)
    exit_if(not trial.ok)
    if is_name(request.path) and open_workspace(request.workspace).settings.org:
        next_step("publish", str(request.path), workspace=request.workspace)


def _print_trial(trial: SmokeTest) -> None:
    """Print each step with its outcome, and the counts."""
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
