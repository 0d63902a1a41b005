"""Alignment: which cells several repositories have, what is missing in which, and writing what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import msgspec

from torchsmith.catalog import Catalog, Package
from torchsmith.core.problem import Conflict, Incomplete
from torchsmith.core.text import shell_word
from torchsmith.matrix import Accepted, BadName, Cell, Variant, assess
from torchsmith.matrix.cells import why_not_generated
from torchsmith.matrix.text import products_of
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace import git
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import (
    PKGS,
    RecipeFile,
    Repository,
    UnusedRecipe,
    discover,
    root_of,
    workspace_of,
)
from torchsmith.workspace.journal import write_apart
from torchsmith.workspace.load import FILE, Workspace, read_as
from torchsmith.workspace.wanted import recipe_options


class AlignedCell(msgspec.Struct, frozen=True):
    """A cell: the repositories that have it, those that lack it, and why others cannot have it."""

    cell: str
    present: list[str]
    missing: list[str]
    cannot: dict[str, str]


class Alignment(msgspec.Struct, frozen=True):
    """The cells of all repositories, and the recipes without a cell. With `create`, the recipes that were
    written, and why others were not."""

    FORMAT: ClassVar = 3
    repositories: list[str]
    cells: list[AlignedCell]
    unmatched: list[UnusedRecipe]
    written: list[Path] = []
    not_written: list[UnusedRecipe] = []
    managed: bool = False  # whether a torchsmith.toml has the cells that were written

    @property
    def missing(self) -> int:
        """How many recipes could be written."""
        return sum(len(row.missing) for row in self.cells)

    @property
    def complete(self) -> int:
        """How many cells every repository has."""
        return sum(len(row.present) == len(self.repositories) for row in self.cells)


@dataclass(frozen=True, slots=True)
class _Column:
    """A repository, or a package of the only one: its recipes by cell, and those that match no cell."""

    label: str
    root: Path
    package: Package
    recipes: dict[str, RecipeFile]
    unmatched: list[UnusedRecipe]


def align_repositories(
    paths: Sequence[Path], workspace: Path | None = None, *, create: bool = False
) -> Alignment:
    """Compare the recipes below the paths by their names; `create` writes what is missing."""
    opened = workspace_of(paths, workspace)
    discovered = discover(paths, opened)
    catalog = discovered.catalog
    repositories = discovered.repositories
    alone = len(repositories) == 1
    columns = [column for repository in repositories for column in _columns(repository, alone=alone)]
    if len(columns) < 2:
        unnamed = [repository.label for repository in repositories if not _columns(repository, alone=alone)]
        if unnamed:
            hint = "recipes are named PACKAGE-pythonXYZ-cudaX_Y-smNNN-ISA; torchsmith audit reads any others"
            raise Incomplete(f"no recipe in {', '.join(unnamed)} is named after a build", hint=hint)
        hint = f"name another: torchsmith align {shell_word(columns[0].label)} OTHER"
        raise Incomplete(f"there is one repository, {columns[0].label}: aligning takes two", hint=hint)
    siblings = {cell: recipe for column in reversed(columns) for cell, recipe in column.recipes.items()}
    rows: list[AlignedCell] = []
    gaps: list[tuple[_Column, RecipeFile]] = []
    for cell in sorted(siblings, key=lambda cell: _variant(siblings[cell]).of(catalog.torch).sort_key):
        sibling = siblings[cell]
        lacking = [column for column in columns if cell not in column.recipes]
        gaps += [(column, sibling) for column in lacking]
        cannot = {
            column.label: why_not_generated(_variant(sibling).of(column.package), catalog, sibling.release)
            for column in lacking
        }
        row = AlignedCell(
            cell=cell,
            present=[column.label for column in columns if column not in lacking],
            missing=[label for label, why in cannot.items() if not why],
            cannot={label: why for label, why in cannot.items() if why},
        )
        rows.append(row)
    alignment = Alignment(
        [column.label for column in columns],
        rows,
        [recipe for column in columns for recipe in column.unmatched],
        managed=opened is not None,
    )
    if not create:
        return alignment
    written, not_written = _create(gaps, columns, catalog, opened)
    return msgspec.structs.replace(alignment, written=written, not_written=not_written)


def _variant(recipe: RecipeFile) -> Variant:
    assert recipe.variant is not None
    return recipe.variant


def _columns(repository: Repository, *, alone: bool) -> list[_Column]:
    """The recipes of the package that a repository has most of; if it is `alone`, of each."""
    recipes: dict[Package, dict[str, RecipeFile]] = {}
    unmatched: list[UnusedRecipe] = []
    # If two names mean one cell, the canonical name counts.
    for recipe in sorted(repository.recipes, key=lambda recipe: not recipe.canonical):
        if isinstance(recipe.read, BadName):
            unmatched.append(UnusedRecipe(recipe.attr, recipe.path, recipe.read.what))
            continue
        variant = recipe.read.variant
        first = recipes.setdefault(variant.package, {}).setdefault(variant.stack, recipe)
        if first is not recipe:
            unmatched.append(UnusedRecipe(recipe.attr, recipe.path, f"{first.attr} is the same build"))
    if not recipes:
        return []
    if alone and len(recipes) > 1:
        columns = [
            _Column(f"{package} in {repository.label}", repository.root, package, cells, [])
            for package, cells in recipes.items()
        ]
        return [replace(columns[0], unmatched=unmatched), *columns[1:]]
    package = max(recipes, key=lambda candidate: len(recipes[candidate]))
    for other, cells in recipes.items():
        if other != package:
            why = f"a {other} among recipes of {package}"
            unmatched += [UnusedRecipe(cell.attr, cell.path, why) for cell in cells.values()]
    return [_Column(repository.label, repository.root, package, recipes[package], unmatched)]


def _create(
    gaps: Sequence[tuple[_Column, RecipeFile]],
    columns: Sequence[_Column],
    catalog: Catalog,
    workspace: Workspace | None,
) -> tuple[list[Path], list[UnusedRecipe]]:
    """Write the missing recipes, each of its sibling's release, and change no file that exists. The
    workspace's torchsmith.toml gets the new cells and those that the repositories had, so that `apply` keeps
    them; without a workspace, each repository gets all of its recipes or none."""
    writer = RecipeWriter(catalog, recipe_options(workspace) if workspace else RecipeOptions())
    made: dict[Path, Cell] = {}
    not_written: list[UnusedRecipe] = []
    for column, sibling in gaps:
        variant = _variant(sibling).of(column.package)
        path = column.root / PKGS / f"{variant}.nix"
        cell = _cell(variant, sibling, catalog)
        if isinstance(cell, str):
            not_written.append(UnusedRecipe(variant.name, path, cell))
        elif not path.exists():
            made[path] = cell
    changes = [
        Change("create", str(path), after=writer.recipe(cell), recipe=True) for path, cell in made.items()
    ]
    if workspace is not None:
        new = [cell for cell in made.values() if cell.name not in workspace.lines]
        changes[:0] = [_matrix_edit(workspace, new, _not_wanted(columns, workspace))] if new else []
    homes = (workspace.home if workspace else root_of(Path(change.path)) for change in changes)
    write_apart(list(zip(homes, changes, strict=True)), "align --create")
    for root in dict.fromkeys(column.root for column in columns):
        added = [str(path.relative_to(root)) for path in made if path.is_relative_to(root)]
        if added and git.is_kept(root):
            why = "git ignores it, so Flox does not see it"
            ignored = map(root.joinpath, git.add(root, added))
            not_written += (UnusedRecipe(path.stem, path, why) for path in ignored)
    return list(made), not_written


def _cell(variant: Variant, sibling: RecipeFile, catalog: Catalog) -> Cell | str:
    """The cell of a recipe, of the release of a sibling, or why it cannot be generated."""
    line = sibling.release
    decision = assess(variant, catalog, line or None)
    if not isinstance(decision, Accepted):
        return why_not_generated(variant, catalog, line)
    if variant.flavor:
        return "a nightly: its source belongs in [nightly] of torchsmith.toml"
    if not line:
        return f"the torch release of {sibling.attr} is not known: add the build to torchsmith.toml"
    return Cell(variant, decision.line.name, decision.warnings)


def _not_wanted(columns: Sequence[_Column], workspace: Workspace) -> list[Cell]:
    """The cells of existing recipes that torchsmith.toml does not have."""
    recipes = [recipe for column in columns for recipe in column.recipes.values()]
    cells = [_cell(_variant(recipe), recipe, workspace.catalog) for recipe in recipes]
    return [cell for cell in cells if isinstance(cell, Cell) and cell.name not in workspace.lines]


def _matrix_edit(workspace: Workspace, cells: Sequence[Cell], present: Sequence[Cell]) -> Change:
    """torchsmith.toml with new cells and those that exist. Raises Conflict if it leaves a new one out."""
    file, before = workspace.home / FILE, workspace.source.text
    blocks = "\n".join(product.text() for product in products_of([*cells, *present]))
    after = f"{before.rstrip()}\n\n# Added by torchsmith align --create.\n{blocks}"
    wanted = {cell.name for cell in read_as(file, after).cells}
    lacking = [cell.name for cell in cells if cell.name not in wanted]
    if lacking:
        hint = "torchsmith.toml leaves it out: change exclude or usable there"
        raise Conflict(f"{lacking[0]} would not be kept by torchsmith apply", hint=hint)
    return Change("rewrite", str(file), before=before, after=after)
