"""`torchsmith align`: which cells several repositories have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith align builds"


def run(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[REPO]...", help="Repositories, or a folder that holds them."),
    ] = None,
    workspace: WorkspaceOption = None,
    create: Annotated[bool, typer.Option("--create", help="Write the recipes that are missing.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the cells of several repositories side by side, and mark what is missing on which side.

    The exit code is 1 when something is missing. With [bold]--create[/bold] it is written, of the release
    that its siblings are of; what cannot be built is said, with the reason.
    """
    from torchsmith.cli import align_view as view
    from torchsmith.plan.align import align, make_missing, write_missing

    alignment = align(tuple(paths or (Path(),)), workspace)
    if create:
        made = make_missing(alignment)
        written = write_missing(made)
        view.print_created(written, [one for one in made if one.left], as_json=json)
        if len(written) < len(made):
            raise typer.Exit(1)
        return
    view.print_alignment(alignment, as_json=json)
    if alignment.missing:
        raise typer.Exit(1)
