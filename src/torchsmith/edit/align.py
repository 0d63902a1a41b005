"""Alignment: which cells several repositories have in common, what is missing where, and creating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import Catalog, Package
from torchsmith.core.problem import Conflict, Incomplete
from torchsmith.core.text import shell_word
from torchsmith.matrix import Accepted, BadName, Cell, Variant, assess
from torchsmith.matrix.cells import why_not_generated
from torchsmith.matrix.text import products_of
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import PKGS, RecipeFile, Repository, discover, root_of, workspace_of
from torchsmith.workspace.journal import write_apart
from torchsmith.workspace.load import FILE, Workspace, read_as
from torchsmith.workspace.wanted import recipe_options


@dataclass(frozen=True, slots=True)
class UnmatchedRecipe:
    """A recipe that is in no row, and why."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Column:
    """A repository: the package it is for, its recipes by cell, and those that no row can hold."""

    label: str
    root: Path
    package: Package
    recipes: dict[str, RecipeFile]
    left: tuple[UnmatchedRecipe, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A cell that a repository lacks and that another has."""

    column: Column
    cell: str
    sibling: RecipeFile
    catalog: Catalog

    @property
    def variant(self) -> Variant:
        return _variant(self.sibling).of(self.column.package)

    @property
    def cannot(self) -> str:
        """Why the repository's package has no such cell, where that is so."""
        return why_not_generated(self.variant, self.catalog, self.sibling.release)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Cells as rows, repositories as columns."""

    columns: tuple[Column, ...]
    cells: tuple[str, ...]
    catalog: Catalog
    workspace: Workspace | None  # whose torchsmith.toml rules the repositories

    @property
    def gaps(self) -> list[Gap]:
        """What one side has and another lacks."""
        lacking = [
            (column, cell) for cell in self.cells for column in self.columns if cell not in column.recipes
        ]
        siblings = {
            cell: recipe for column in reversed(self.columns) for cell, recipe in column.recipes.items()
        }
        return [Gap(column, cell, siblings[cell], self.catalog) for column, cell in lacking]

    @property
    def left(self) -> list[UnmatchedRecipe]:
        return [recipe for column in self.columns for recipe in column.left]


def align_repositories(paths: Sequence[Path], workspace: Path | None = None) -> Alignment:
    """Read the names of the recipes below the paths."""
    opened = workspace_of(paths, workspace)
    discovered = discover(paths, opened)
    columns = [column for repository in discovered.repositories if (column := _column(repository))]
    if len(columns) < 2:
        unnamed = [repository.label for repository in discovered.repositories if _column(repository) is None]
        if unnamed:
            hint = "recipes are named PACKAGE-pythonXYZ-cudaX_Y-smNNN-ISA; torchsmith audit reads any others"
            raise Incomplete(f"no recipe in {', '.join(unnamed)} is named after a cell", hint=hint)
        hint = f"name another: torchsmith align {shell_word(columns[0].label)} OTHER"
        raise Incomplete(f"there is one repository, {columns[0].label}: aligning takes two", hint=hint)
    variants = {cell: _variant(recipe) for column in columns for cell, recipe in column.recipes.items()}
    cells = sorted(variants, key=lambda cell: variants[cell].of(discovered.catalog.torch).sort_key)
    return Alignment(tuple(columns), tuple(cells), discovered.catalog, opened)


def _variant(recipe: RecipeFile) -> Variant:
    assert recipe.variant is not None
    return recipe.variant


def _column(repository: Repository) -> Column | None:
    recipes: dict[Package, dict[str, RecipeFile]] = {}
    left: list[UnmatchedRecipe] = []
    # Of two names of a cell the one that is spelled as ours counts.
    for recipe in sorted(repository.recipes, key=lambda recipe: not recipe.canonical):
        if isinstance(recipe.read, BadName):
            left.append(UnmatchedRecipe(recipe.path, recipe.read.what))
            continue
        variant = recipe.read.variant
        first = recipes.setdefault(variant.package, {}).setdefault(variant.stack, recipe)
        if first is not recipe:
            left.append(UnmatchedRecipe(recipe.path, f"{first.attr} is the same cell"))
    if not recipes:
        return None
    package = max(recipes, key=lambda candidate: len(recipes[candidate]))
    for other, cells in recipes.items():
        if other != package:
            why = f"a {other} among recipes of {package}"
            left += [UnmatchedRecipe(cell.path, why) for cell in cells.values()]
    return Column(repository.label, repository.root, package, recipes[package], tuple(left))


@dataclass(frozen=True, slots=True)
class MissingRecipe:
    """A recipe to write for a gap, and its cell; without a text, why it cannot be written."""

    path: Path
    cell: Cell | None = None
    text: str = ""
    why: str = ""


def make_missing(alignment: Alignment) -> list[MissingRecipe]:
    """The recipes that are missing, each of its siblings' release."""
    options = recipe_options(alignment.workspace) if alignment.workspace else RecipeOptions()
    writer = RecipeWriter(alignment.catalog, options)
    return [_made(alignment, gap, writer) for gap in alignment.gaps]


def _made(alignment: Alignment, gap: Gap, writer: RecipeWriter) -> MissingRecipe:
    variant, line = gap.variant, gap.sibling.release
    path = gap.column.root / PKGS / f"{variant}.nix"
    decision = assess(variant, alignment.catalog, line or None)
    if not isinstance(decision, Accepted):
        return MissingRecipe(path, why=gap.cannot)
    if variant.flavor:
        return MissingRecipe(path, why="a nightly: its source belongs into [nightly] of torchsmith.toml")
    if not line:
        why = f"cannot tell which torch {gap.sibling.attr} is of: ask for it in torchsmith.toml"
        return MissingRecipe(path, why=why)
    cell = Cell(variant, decision.line.name, decision.warnings)
    return MissingRecipe(path, cell, writer.recipe(cell))


def write_missing(alignment: Alignment, made: Sequence[MissingRecipe]) -> list[Path]:
    """Write what could be made; nothing that exists is touched. A workspace asks from then on for the new
    cells and those that the repositories had, so that `apply` keeps all of them; without one, each
    repository gets all of its recipes or none."""
    todo = [recipe for recipe in made if recipe.cell and not recipe.path.exists()]
    changes = [Change("create", str(recipe.path), after=recipe.text, recipe=True) for recipe in todo]
    workspace = alignment.workspace
    if workspace is not None:
        cells = [recipe.cell for recipe in todo if recipe.cell and recipe.cell.name not in workspace.lines]
        changes[:0] = [_matrix_edit(workspace, cells, _not_asked_for(alignment, workspace))] if cells else []
    homes = (workspace.home if workspace else root_of(Path(change.path)) for change in changes)
    write_apart(list(zip(homes, changes, strict=True)), "align --create")
    return [recipe.path for recipe in todo]


def _not_asked_for(alignment: Alignment, workspace: Workspace) -> list[Cell]:
    """The cells of recipes that are there and that torchsmith.toml does not ask for."""
    recipes = [recipe for column in alignment.columns for recipe in column.recipes.values()]
    cells = []
    for recipe in recipes:
        variant, line = _variant(recipe), recipe.release
        decision = assess(variant, alignment.catalog, line) if line and not variant.flavor else None
        if isinstance(decision, Accepted) and variant.name not in workspace.lines:
            cells.append(Cell(variant, decision.line.name, decision.warnings))
    return cells


def _matrix_edit(workspace: Workspace, cells: Sequence[Cell], present: Sequence[Cell]) -> Change:
    """torchsmith.toml with new cells and those that are present; a Problem where it leaves a new one out."""
    file, before = workspace.home / FILE, workspace.source.text
    blocks = "\n".join(product.text() for product in products_of([*cells, *present]))
    after = f"{before.rstrip()}\n\n# Added by torchsmith align --create.\n{blocks}"
    wanted = {cell.name for cell in read_as(file, after).cells}
    lacking = [cell.name for cell in cells if cell.name not in wanted]
    if lacking:
        hint = "torchsmith.toml leaves it out: change exclude or usable there"
        raise Conflict(f"{lacking[0]} would not be kept by torchsmith apply", hint=hint)
    return Change("rewrite", str(file), before=before, after=after)
