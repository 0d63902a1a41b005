"""Options that several verbs share, and what they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def complete_names(incomplete: str) -> list[str]:
    """Variant names of the workspace at hand, for the shell."""
    from torchsmith.edge.problem import Problem
    from torchsmith.workspace.load import open_workspace

    try:
        cells = open_workspace(None).matrix.cells
    except Problem:
        return []
    return [cell.name for cell in cells if cell.name.startswith(incomplete)]


WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        help="A torchsmith.toml or its folder; else the nearest one above this folder, else the default.",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", "-p", help="Use this profile: plan, real, wide, or one of your own."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Selectors = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SELECTOR]...",
        help="Words that pick variants, such as sm120, sm9*, cpu, avx512*, package:torchvision, !sm110.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A variant's name.", autocompletion=complete_names)]
