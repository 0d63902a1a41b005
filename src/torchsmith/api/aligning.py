"""Which cells several repositories have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.options import WorkspaceOption
from torchsmith.edit.align import UnmatchedRecipe, align_repositories, make_missing, write_missing
from torchsmith.workspace.checkout import workspace_folder


@dataclass(frozen=True, kw_only=True)
class AlignRequest:
    """Which repositories to lay side by side, and whether to write what is missing."""

    paths: Annotated[
        tuple[Path, ...], Argument("Repositories, or a folder that holds them.", metavar="[REPO]...")
    ] = ()
    workspace: WorkspaceOption = None
    create: Annotated[bool, Option("Write the recipes that are missing.")] = False


class AlignedCell(msgspec.Struct, frozen=True):
    """A cell: the repositories that have it, those that lack it, and why others cannot have it."""

    cell: str
    present: Sequence[str]
    missing: Sequence[str]
    cannot: dict[str, str]


class AlignReport(msgspec.Struct, frozen=True):
    """The cells of all repositories, and recipes that are no cell. With `create` the recipes that were
    `written`, and why others could not be."""

    FORMAT: ClassVar = 2  # 1: a row had a boolean for each repository

    repositories: Sequence[str]
    cells: Sequence[AlignedCell]
    left: Sequence[UnmatchedRecipe]
    written: Sequence[Path] = ()
    not_written: dict[str, str] = {}
    managed: bool = False  # whether a torchsmith.toml asks for the written ones too

    @property
    def missing(self) -> int:
        """How many recipes could be written."""
        return sum(len(row.missing) for row in self.cells)

    @property
    def whole(self) -> int:
        """Cells that every repository has."""
        return sum(len(row.present) == len(self.repositories) for row in self.cells)


def align(request: AlignRequest) -> AlignReport:
    """Lay the cells of repositories side by side; `create` writes what is missing."""
    paths = request.paths or (workspace_folder(request.workspace),)
    alignment = align_repositories(paths, request.workspace)
    made = make_missing(alignment) if request.create else []
    gaps = {(gap.cell, gap.column.label): gap.cannot for gap in alignment.gaps}
    repositories = [column.label for column in alignment.columns]
    rows = []
    for cell in alignment.cells:
        gaps_here = {repo: gaps[cell, repo] for repo in repositories if (cell, repo) in gaps}
        rows.append(
            AlignedCell(
                cell=cell,
                present=[repo for repo in repositories if repo not in gaps_here],
                missing=[repo for repo, cannot in gaps_here.items() if not cannot],
                cannot={repo: cannot for repo, cannot in gaps_here.items() if cannot},
            )
        )
    return AlignReport(
        repositories,
        rows,
        alignment.left,
        write_missing(alignment, made),
        {str(recipe.path): recipe.why for recipe in made if recipe.why},
        alignment.workspace is not None,
    )
