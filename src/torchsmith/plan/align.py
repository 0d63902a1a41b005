"""Alignment: which cells several repositories have in common, what is missing where, and creating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.audit.run import Bench
from torchsmith.audit.subject import Subject
from torchsmith.audit.suppress import Choice
from torchsmith.audit.targets import Folder, find_folders, workspace_of
from torchsmith.catalog import builtin_catalog
from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Accepted, BadName, Cell, Package, assess, read_name
from torchsmith.recipe.read import read_recipe
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace.wanted import PKGS, recipe_options


@dataclass(frozen=True, slots=True)
class Column:
    """A repository: the package it is for, and its recipes by cell."""

    shown: str
    root: Path
    package: Package
    recipes: dict[str, Path]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Cells as rows, repositories as columns."""

    columns: tuple[Column, ...]
    cells: tuple[str, ...]
    bench: Bench
    options: RecipeOptions

    @property
    def missing(self) -> list[tuple[Column, str]]:
        """What one side has and another lacks."""
        return [
            (column, cell) for cell in self.cells for column in self.columns if cell not in column.recipes
        ]

    @property
    def whole(self) -> int:
        """Cells that every repository has."""
        return sum(all(cell in column.recipes for column in self.columns) for cell in self.cells)


def align(paths: Sequence[Path], workspace: Path | None = None) -> Alignment:
    """Read the names of the recipes below the paths."""
    folders = find_folders(paths)
    opened = workspace_of(paths, workspace)
    catalog = opened.catalog if opened else builtin_catalog()
    lines = {cell.name: cell.line for cell in opened.matrix.cells} if opened else {}
    options = recipe_options(opened.matrix, opened.settings) if opened else RecipeOptions()
    columns = [column for folder in folders if (column := _column(folder))]
    if len(columns) < 2:
        raise Problem(
            "aligning takes two repositories or more",
            hint="name them: torchsmith align build-pytorch build-torchvision",
        )
    variants = {cell: read_name(path.stem).variant for one in columns for cell, path in one.recipes.items()}
    cells = sorted(variants, key=lambda cell: variants[cell].of(Package.PYTORCH).sort_key)
    return Alignment(tuple(columns), tuple(cells), Bench(catalog, Choice(), lines), options)


def _column(folder: Folder) -> Column | None:
    found: dict[Package, dict[str, Path]] = {}
    for path in folder.recipes:
        try:
            variant = read_name(path.stem).variant
        except BadName:
            continue
        found.setdefault(variant.package, {}).setdefault(variant.cell, path)
    if not found:
        return None
    package = max(found, key=lambda one: len(found[one]))
    return Column(folder.shown, folder.root, package, found[package])


@dataclass(frozen=True, slots=True)
class Made:
    """A recipe that was missing: its file, or why it cannot be made."""

    path: Path
    text: str = ""
    reason: str = ""


def make_missing(alignment: Alignment) -> list[Made]:
    """The recipes that are missing, each of the release that its siblings are of."""
    return [_made(alignment, column, cell) for column, cell in alignment.missing]


def _made(alignment: Alignment, column: Column, cell: str) -> Made:
    sibling = next(one.recipes[cell] for one in alignment.columns if cell in one.recipes)
    variant = read_name(sibling.stem).variant.of(column.package)
    path = column.root / PKGS / f"{variant}.nix"
    line = _line_of(sibling, alignment.bench)
    decision = assess(variant, alignment.bench.catalog, line)
    if not isinstance(decision, Accepted):
        return Made(path, reason="; ".join(map(str, decision.reasons)))
    if variant.flavor and variant.package not in alignment.options.nightly:
        return Made(path, reason="the revision of its source is not known: give [nightly] in torchsmith.toml")
    made = Cell(variant, decision.line.name, decision.warnings)
    return Made(path, RecipeWriter(alignment.bench.catalog, alignment.options).recipe(made))


def _line_of(sibling: Path, bench: Bench) -> str | None:
    """The release of the sibling, by what it says."""
    if sibling.stem in bench.lines:
        return bench.lines[sibling.stem]
    subject = Subject(str(sibling), read_recipe(sibling), bench.catalog)
    return subject.line.name if subject.line else None


def write_missing(made: Sequence[Made]) -> list[Path]:
    """Write what could be made; nothing that exists is touched."""
    written = []
    for one in made:
        if one.text and not one.path.exists():
            write_atomic(one.path, one.text)
            written.append(one.path)
    return written
