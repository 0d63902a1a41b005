"""The first torchsmith.toml of a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.catalog.ranges import version_key
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.options import ProfileChoice, complete_cells
from torchsmith.core.problem import Conflict
from torchsmith.matrix.describe import newer_lines
from torchsmith.workspace.derive import SkippedRecipe
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.start import (
    block_title,
    derive_workspace,
    start_workspace,
    write_derived,
)


@dataclass(frozen=True, kw_only=True)
class InitRequest:
    """Where a workspace is to be, and which matrix it starts with."""

    folders: Annotated[
        tuple[Path, ...],
        Argument(
            "The folder of the workspace; by default this one. With --from: more repositories.",
            metavar="[FOLDER]",
        ),
    ] = ()
    profile: ProfileChoice = "real"
    cell: Annotated[
        tuple[str, ...],
        Option("Ask for this cell only, in every package.", autocompletion=complete_cells),
    ] = ()
    existing: Annotated[
        tuple[Path, ...],
        Option("--from", "Derive the matrix from the recipes of these repositories."),
    ] = ()
    line: Annotated[
        str | None, Option("With --from: the torch line of recipes that do not state theirs.")
    ] = None
    force: Annotated[bool, Option("Replace an existing torchsmith.toml.")] = False


class InitReport(msgspec.Struct, frozen=True):
    """The file that was written and the variants that it asks for; of recipes that were read, what of them
    was left out, assumed and lost, and their nixpkgs where that is not the catalog's."""

    file: Path
    variants: int
    warned: int = 0
    recipes: int = 0
    left: Sequence[SkippedRecipe] = ()
    assumed: Sequence[str] = ()
    lost: Sequence[str] = ()
    elsewhere: dict[str, int] = {}
    pins: dict[str, str] = {}
    newer: dict[str, str] = {}  # torch releases that are newer than those asked for, and what each lacks


def init(request: InitRequest) -> InitReport:
    """Write a torchsmith.toml: for a profile, for cells, or around repositories that are there. Raises
    Conflict for options that exclude each other, Exists for a file that is there, unless `force`."""
    if request.existing and (request.cell or request.profile != "real"):
        raise Conflict(
            "--from derives the matrix from recipes; --profile and --cell cannot be combined with it"
        )
    if request.line and not request.existing:
        hint = f'without --from, write line = "{request.line}" into torchsmith.toml'
        raise Conflict("--line needs --from", hint=hint)
    if not request.existing:
        if len(request.folders) > 1:
            hint = "--from takes repositories in"
            raise Conflict(f"{request.folders[1]}: a workspace is one folder", hint=hint)
        folder = request.folders[0] if request.folders else Path()
        file = start_workspace(folder, request.profile, cells=request.cell, replace=request.force)
        opened = open_workspace(file)
        cells = opened.matrix.cells
        lines = [opened.catalog.lines[name] for name in {cell.line for cell in cells}]
        newest = max(lines, key=lambda line: version_key(line.torch), default=None)
        return InitReport(
            file,
            len(cells),
            warned=sum(bool(cell.warnings) for cell in cells),
            newer=newer_lines(newest, opened.catalog) if newest else {},
        )
    derived = derive_workspace([*request.existing, *request.folders], request.line)
    write_derived(derived, force=request.force)
    return InitReport(
        file=derived.file,
        variants=len(derived.cells),
        warned=sum(bool(cell.warnings) for cell in derived.cells),
        recipes=derived.recipes,
        left=derived.left,
        assumed=derived.assumed,
        lost=derived.lost,
        elsewhere=dict(derived.elsewhere),
        pins={block_title(block): pin for block, pin in derived.pins.items()},
    )
