"""A torchsmith.toml from recipes that lie there: which cells they are, of which release, and which could not
be read."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchsmith.catalog import Catalog, load_catalog
from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Conflict, Empty, Exists, Incomplete, NotFound, Problem
from torchsmith.matrix import Accepted, Cell, assess
from torchsmith.matrix.text import products_of
from torchsmith.workspace.checkout import RecipeFile, Repository, discover
from torchsmith.workspace.load import FILE

NIXPKGS = re.compile(r"nixpkgs/archive/([0-9a-f]{40})")
REASONS = 3  # told where nothing at all could be taken in
HEAD = """\
# Which builds this workspace ships, read off the recipes in {repos}.
# torchsmith plan says what is right as it is, and what would change. Schema for editors: torchsmith schema
format = 1
packages = [{packages}]
"""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A recipe that the derived matrix does not hold, and why."""

    name: str
    path: str
    why: str
    impossible: bool = False  # its name is a cell, but no such cell can be built


@dataclass(frozen=True, slots=True)
class Derived:
    """What recipes say a workspace is."""

    file: Path
    text: str
    recipes: int
    cells: tuple[Cell, ...]
    left: tuple[LeftBehind, ...]
    folders: dict[str, str] = field(default_factory=dict)  # of packages that do not lie where ours would
    pins: Mapping[str, int] = field(
        default_factory=dict
    )  # recipes at another nixpkgs than their line's, in words


def derive_workspace(folder: Path | None, repos: Sequence[Path], line: str | None = None) -> Derived:
    """Read repositories; a Problem where they do not lie side by side, or hold nothing that can be read."""
    root = _root(folder, repos)
    catalog = load_catalog(root / "catalog")
    repositories = discover(repos).repositories
    cells: dict[str, Cell] = {}
    left: list[LeftBehind] = []
    silent: list[RecipeFile] = []
    pins: Counter[str] = Counter()
    for recipe in (one for repository in repositories for one in repository.recipes):
        found = _cell(recipe, catalog, line)
        if isinstance(found, Cell):
            cells.setdefault(found.name, found)
            pins.update(_elsewhere(recipe, found, catalog))
        elif found is None:
            silent.append(recipe)
        else:
            left.append(found)
    if silent:
        raise Incomplete(
            f"nothing tells which torch release {len(silent)} recipes are of, such as {silent[0].attr}",
            hint="say it: --line 2.9, or a comment # torchsmith: line 2.9 in each",
        )
    if not cells:
        reasons = Counter(one.why for one in left).most_common(REASONS)
        raise Empty(
            f"no recipe in {', '.join(map(str, repos))} names a cell that can be built",
            hint="; ".join(f"{count} of them: {why}" for why, count in reasons)
            or "a recipe is NAME.nix or NAME/default.nix below .flox/pkgs",
        )
    folders = _folders(repositories, catalog)
    ordered = tuple(sorted(cells.values(), key=lambda cell: cell.variant.sort_key))
    text = _text(ordered, repositories)
    count = sum(len(one.recipes) for one in repositories)
    return Derived(root / FILE, text, count, ordered, tuple(left), folders, pins)


def write_derived(derived: Derived, *, force: bool = False) -> None:
    """Write the file, and where packages lie if that is not where ours would."""
    if derived.file.exists() and not force:
        raise Exists(f"{derived.file} is there already", hint="--force replaces it")
    if derived.folders:
        own = derived.file.parent / "catalog/packages.toml"
        if own.exists():
            raise Exists(f"{own} is there already", hint="name the folders there: repo of each package")
        own.parent.mkdir(exist_ok=True)
        rows = [f'[{name}]\nrepo = "{folder}"\n' for name, folder in derived.folders.items()]
        write_atomic(own, "# Where the recipes of these packages lie.\n" + "\n".join(rows))
    write_atomic(derived.file, derived.text)


def _root(folder: Path | None, repos: Sequence[Path]) -> Path:
    """The folder that holds all repositories: a workspace's repositories lie directly in it."""
    missing = [repo for repo in repos if not repo.is_dir()]
    if missing:
        raise NotFound(f"there is no folder {missing[0]}")
    parents = {repo.resolve().parent for repo in repos}
    if len(parents) > 1:
        raise Conflict(
            f"the repositories lie in {len(parents)} folders: {', '.join(sorted(map(str, parents)))}",
            hint="a workspace holds its repositories side by side: move them together",
        )
    (parent,) = parents
    if folder is not None and folder.resolve() != parent:
        raise Conflict(
            f"the workspace of {repos[0]} is {parent}, not {folder}",
            hint="a workspace holds its repositories side by side: leave the folder out",
        )
    return Path(os.path.relpath(parent))


def _cell(recipe: RecipeFile, catalog: Catalog, line: str | None) -> Cell | LeftBehind | None:
    """What a recipe is a build of; None where nothing tells its release."""
    where = str(recipe.path)
    if recipe.variant is None:
        return LeftBehind(recipe.attr, where, recipe.read.message if isinstance(recipe.read, Problem) else "")
    variant = recipe.variant
    if variant.flavor:
        return LeftBehind(
            recipe.attr, where, "a nightly: its source belongs into [nightly] of torchsmith.toml"
        )
    named = recipe.release.line or line
    decision = assess(variant, catalog, named)
    if not isinstance(decision, Accepted):
        why = "; ".join(map(str, decision.reasons))
        return LeftBehind(recipe.attr, where, why, impossible=True)
    told = named or not (variant.package.is_torch or variant.package.needs_torch)
    return Cell(variant, decision.line.name, decision.warnings) if told else None


def _elsewhere(recipe: RecipeFile, cell: Cell, catalog: Catalog) -> Iterator[str]:
    """Where a recipe takes another nixpkgs than its line has: written again, it would take the line's."""
    build = catalog.lines[cell.line].build_for(cell.variant.cuda)
    pin = catalog.pins.get(build.pin) if build else None
    stated = NIXPKGS.search(recipe.text or "")
    if pin is not None and stated is not None and stated[1] != pin.rev:
        cuda = f"CUDA {cell.variant.cuda}" if cell.variant.cuda else "the CPU"
        yield f"line {cell.line} for {cuda} at {stated[1][:7]}, where ours would be at {pin.rev[:7]}"


def _folders(repositories: Iterable[Repository], catalog: Catalog) -> dict[str, str]:
    """Packages whose recipes lie in a folder of another name than ours would."""
    home: dict[str, str] = {}
    for repository in repositories:
        counts = Counter(one.variant.package.name for one in repository.recipes if one.variant)
        name = repository.root.resolve().name
        for package, _ in counts.most_common(1):
            if package in home:
                raise Conflict(
                    f"{home[package]} and {name} both hold recipes of {package}",
                    hint="a workspace has one repository for each package: take one of them in",
                )
            home[package] = name
    return {package: name for package, name in home.items() if catalog.packages[package].folder != name}


def _text(cells: Sequence[Cell], repositories: Sequence[Repository]) -> str:
    packages = list(dict.fromkeys(cell.variant.package.name for cell in cells))
    repos = ", ".join(one.root.resolve().name for one in repositories)
    head = HEAD.format(repos=repos, packages=", ".join(f'"{name}"' for name in packages))
    products = [
        replace(one, packages=() if one.packages == tuple(packages) else one.packages)
        for one in products_of(cells)
    ]
    return "\n".join([head, *(product.text() for product in products)])
