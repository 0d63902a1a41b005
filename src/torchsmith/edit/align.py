"""Alignment: which cells several repositories have in common, what is missing where, and creating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import Catalog, Package
from torchsmith.core.problem import Incomplete
from torchsmith.matrix import Accepted, BadName, Cell, Decision, Reason, Variant, assess
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import PKGS, RecipeFile, Repository, discover, root_of, workspace_of
from torchsmith.workspace.journal import write_apart
from torchsmith.workspace.wanted import recipe_options


@dataclass(frozen=True, slots=True)
class Unaligned:
    """A recipe that is in no row, and why."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Column:
    """A repository: the package it is for, its recipes by cell, and those that no row can hold."""

    shown: str
    root: Path
    package: Package
    recipes: dict[str, RecipeFile]
    left: tuple[Unaligned, ...] = ()


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
    def decision(self) -> Decision:
        return assess(self.variant, self.catalog, self.sibling.release.line or None)

    @property
    def cannot(self) -> tuple[Reason, ...]:
        """Why the repository's package has no such cell, where that is so."""
        return () if isinstance(self.decision, Accepted) else self.decision.reasons


@dataclass(frozen=True, slots=True)
class Alignment:
    """Cells as rows, repositories as columns."""

    columns: tuple[Column, ...]
    cells: tuple[str, ...]
    catalog: Catalog
    options: RecipeOptions

    @property
    def gaps(self) -> list[Gap]:
        """What one side has and another lacks."""
        lacking = [
            (column, cell) for cell in self.cells for column in self.columns if cell not in column.recipes
        ]
        siblings = {cell: recipe for one in reversed(self.columns) for cell, recipe in one.recipes.items()}
        return [Gap(column, cell, siblings[cell], self.catalog) for column, cell in lacking]

    @property
    def left(self) -> list[Unaligned]:
        return [one for column in self.columns for one in column.left]


def align_repositories(paths: Sequence[Path], workspace: Path | None = None) -> Alignment:
    """Read the names of the recipes below the paths."""
    opened = workspace_of(paths, workspace)
    found = discover(paths, opened)
    options = recipe_options(opened) if opened else RecipeOptions()
    columns = [column for one in found.repositories if (column := _column(one))]
    if len(columns) < 2:
        unnamed = [one.shown for one in found.repositories if _column(one) is None]
        if unnamed:
            hint = "recipes are named PACKAGE-pythonXYZ-cudaX_Y-smNNN-ISA; torchsmith audit reads any others"
            raise Incomplete(f"no recipe in {', '.join(unnamed)} is named after a cell", hint=hint)
        hint = "name them: torchsmith align build-pytorch build-torchvision"
        raise Incomplete(f"there is one repository, {columns[0].shown}: aligning takes two", hint=hint)
    variants = {cell: _variant(recipe) for one in columns for cell, recipe in one.recipes.items()}
    cells = sorted(variants, key=lambda cell: variants[cell].of(found.catalog.torch).sort_key)
    return Alignment(tuple(columns), tuple(cells), found.catalog, options)


def _variant(recipe: RecipeFile) -> Variant:
    assert recipe.variant is not None
    return recipe.variant


def _column(repository: Repository) -> Column | None:
    found: dict[Package, dict[str, RecipeFile]] = {}
    left: list[Unaligned] = []
    # Of two names of a cell the one that is spelled as ours counts.
    for recipe in sorted(repository.recipes, key=lambda one: not one.canonical):
        if isinstance(recipe.read, BadName):
            left.append(Unaligned(recipe.path, recipe.read.what))
            continue
        variant = recipe.read.variant
        first = found.setdefault(variant.package, {}).setdefault(variant.stack, recipe)
        if first is not recipe:
            left.append(Unaligned(recipe.path, f"{first.attr} is the same cell"))
    if not found:
        return None
    package = max(found, key=lambda one: len(found[one]))
    for other, cells in found.items():
        if other != package:
            why = f"a {other} among recipes of {package}"
            left += [Unaligned(one.path, why) for one in cells.values()]
    return Column(repository.shown, repository.root, package, found[package], tuple(left))


def make_missing(alignment: Alignment) -> list[Change]:
    """The recipes that are missing, each of its siblings' release; `left` where that cannot be."""
    return [_made(alignment, gap) for gap in alignment.gaps]


def _made(alignment: Alignment, gap: Gap) -> Change:
    sibling, variant, decision = gap.sibling, gap.variant, gap.decision
    path = str(gap.column.root / PKGS / f"{variant}.nix")

    def cannot(why: str) -> Change:
        return Change("create", path, why, recipe=True, left=True)

    if not isinstance(decision, Accepted):
        return cannot("; ".join(map(str, gap.cannot)))
    if not sibling.release.line and not variant.flavor:
        return cannot(f"nothing tells which torch {sibling.attr} is of: ask for it in torchsmith.toml")
    if variant.flavor and variant.package.name not in alignment.options.nightly:
        return cannot("the revision of its source is not known: give [nightly] in torchsmith.toml")
    made = Cell(variant, decision.line.name, decision.warnings)
    text = RecipeWriter(alignment.catalog, alignment.options).recipe(made)
    return Change("create", path, f"{sibling.attr} is there", after=text, recipe=True)


def write_missing(made: Sequence[Change]) -> list[Path]:
    """Write what could be made, in each repository all or none; nothing that exists is touched."""
    todo = [one for one in made if one.done and not Path(one.path).exists()]
    write_apart([(root_of(Path(one.path)), one) for one in todo], "align --create")
    return [Path(one.path) for one in todo]
