"""`torchsmith init`: a torchsmith.toml to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.options import ProfileChoice, complete_cells
from torchsmith.cli.console import next_step, warn, write
from torchsmith.core.problem import Conflict
from torchsmith.core.words import counted, grouped, some_of

EXAMPLE = "torchsmith init builds --profile seed"


def run(
    folders: Annotated[
        list[Path] | None,
        Argument(
            "Where the workspace is to be; here. With --from: more repositories, as build-* gives them.",
            metavar="[FOLDER]",
        ),
    ] = None,
    profile: ProfileChoice = "real",
    cell: Annotated[
        list[str] | None,
        Option(
            "Ask for this cell instead, in every package; may be given again.", autocompletion=complete_cells
        ),
    ] = None,
    existing: Annotated[
        list[Path] | None,
        Option("--from", "Read the matrix off the recipes of these repositories, side by side."),
    ] = None,
    line: Annotated[
        str | None, Option("With --from: the torch line of recipes that do not tell theirs.")
    ] = None,
    force: Annotated[bool, Option("Replace a torchsmith.toml that is there.")] = False,
) -> None:
    """Write a torchsmith.toml, the one file that says which builds you ship.

    It starts with the profile [bold]real[/bold], in which every cell has a machine that can use it.
    [bold]seed[/bold] is the whole seed plan, [bold]wide[/bold] every cell that hardware and toolkit allow.
    """
    from torchsmith.workspace.start import start_workspace

    if existing and (cell or profile != "real"):
        raise Conflict("--from reads the matrix off recipes; --profile and --cell name another")
    if line and not existing:
        hint = f'without --from, write line = "{line}" into torchsmith.toml'
        raise Conflict("--line is for recipes that --from takes in", hint=hint)
    if existing:
        _take_in([*existing, *(folders or ())], line, force)
        return
    if folders and len(folders) > 1:
        raise Conflict(f"{folders[1]}: a workspace is one folder", hint="--from takes repositories in")
    folder = folders[0] if folders else Path()
    file, count = start_workspace(folder, profile, cells=cell or (), replace=force)
    warn(f"wrote {file}: {counted(count, 'variant')}")
    next_step("generate", workspace=folder)


def _take_in(repos: list[Path], line: str | None, force: bool) -> None:
    """A workspace around repositories that are there."""
    from torchsmith.workspace.start import block_words, derive_workspace, write_derived

    derived = derive_workspace(repos, line)
    write_derived(derived, force=force)
    titles = {True: "cells that torchsmith does not make", False: "names that are no cell"}
    for impossible, title in titles.items():
        left = [one for one in derived.left if one.impossible is impossible]
        if left:
            write(f"left out, {title}: {len(left)}")
        for why, names in grouped((one.why, one.name) for one in left).items():
            write(f"  {some_of(names)}: {why}")
    for title, rows in (("not told, and taken", derived.assumed), ("not kept", derived.lost)):
        if rows:
            write(f"{title}: {len(rows)}")
        for row in rows:
            write(f"  {row}")
    if derived.elsewhere:
        write("at another nixpkgs than their line, which --adopt moves them to:")
    for words, count in derived.elsewhere.items():
        write(f"  {count} of {words}")
    warned = sum(bool(cell.warnings) for cell in derived.cells)
    aside = f", {warned} of them with a warning (torchsmith list)" if warned else ""
    for block, pin in derived.pins.items():
        warn(f"wrote catalog/lines.toml: {block_words(block)} at nixpkgs {pin}, as all of its recipes are")
    kind = "file" if derived.assumed or derived.lost else "recipe"
    cells, recipes = counted(len(derived.cells), "variant"), counted(derived.recipes, kind)
    warn(f"wrote {derived.file}: {cells} from {recipes}{aside}")
    next_step("plan", workspace=derived.file.parent)
