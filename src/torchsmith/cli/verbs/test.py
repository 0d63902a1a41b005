"""`torchsmith test PATH`: a built package, run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.options import JsonOption, VariantOption, WorkspaceOption

EXAMPLE = "torchsmith test sample --junit results.xml"


def run(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A cell's name, a result link, a store path, a site-packages folder, or the word sample.",
        ),
    ],
    variant: VariantOption = None,
    python: Annotated[
        Path | None, typer.Option("--python", help="The interpreter to run it with; else its own inputs'.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds after which it is ended.")
    ] = 600,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write the results to this file as JUnit XML.")
    ] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Run a built package: import, versions, CPU and every GPU against plain Python.

    It runs in a process of its own, so a crash is a result and not an end. Steps that this machine cannot
    try are skipped and say why. The exit code is 1 when a step failed.
    """
    from torchsmith.artifact.interpreter import interpreter_for
    from torchsmith.artifact.junit import junit as junit_xml
    from torchsmith.artifact.trial import try_out
    from torchsmith.cli.by_name import build_and_name
    from torchsmith.cli.console import err, print_json
    from torchsmith.cli.options import promised
    from torchsmith.cli.samples import or_sample
    from torchsmith.cli.trial_view import print_trial
    from torchsmith.edge.files import write_atomic
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    path, variant = build_and_name(or_sample(path, "build"), variant, opened)
    promise = promised(variant, path, opened.catalog)
    interpreter = interpreter_for(path, opened.catalog, python)
    with err().status(f"running it with {interpreter.python}"):
        trial = try_out(path, interpreter, promise, opened.catalog, timeout)
    if junit:
        write_atomic(junit, junit_xml(trial))
    if json:
        print_json(trial)
    else:
        print_trial(trial)
    if not trial.ok:
        raise typer.Exit(1)
