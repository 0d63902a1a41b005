"""Recipes on disk: those of a workspace, a repository or a folder, and which of them words pick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.edge.problem import Problem, did_you_mean
from torchsmith.matrix import BadName, Selector, read_name

PKGS = ".flox/pkgs"


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe: the name that Flox gives it, and its file."""

    name: str
    path: Path
    system: str = ""  # that its name says it is for


def recipes_in(folder: Path, catalog: Catalog) -> list[RecipeFile]:
    """The recipes of a repository, of all repositories of a workspace, or of a plain folder."""
    places = [folder / PKGS, *sorted(child / PKGS for child in folder.iterdir() if child.is_dir())]
    found = [recipe for place in places if place.is_dir() for recipe in _below(place, catalog)]
    if not found:
        found = [_recipe(file, catalog) for file in sorted(folder.glob("*.nix"))]
    return _distinct(found, folder)


def _below(pkgs: Path, catalog: Catalog) -> Iterator[RecipeFile]:
    """Flox' rule: NAME.nix and NAME/default.nix are packages, a folder without default.nix nests."""
    for entry in sorted(pkgs.iterdir()):
        if entry.is_symlink():
            continue
        if entry.suffix == ".nix" and entry.is_file():
            yield _recipe(entry, catalog)
        elif (entry / "default.nix").is_file():
            yield replace(_recipe(entry / "default.nix", catalog), name=entry.name)
        elif entry.is_dir():
            yield from _below(entry, catalog)


def _recipe(file: Path, catalog: Catalog) -> RecipeFile:
    name = file.parent.name if file.name == "default.nix" else file.stem
    try:
        isa = catalog.isas.get(read_name(name).variant.isa)
    except BadName:
        isa = None
    return RecipeFile(name, file, isa.platform if isa else "")


def _distinct(recipes: Sequence[RecipeFile], folder: Path) -> list[RecipeFile]:
    """A name that two repositories have gets its repository in front."""
    counts = Counter(recipe.name for recipe in recipes)
    return [
        replace(recipe, name=f"{recipe.path.relative_to(folder).parts[0]}/{recipe.name}")
        if counts[recipe.name] > 1
        else recipe
        for recipe in recipes
    ]


def choose_recipes(words: Sequence[str], folder: Path, catalog: Catalog) -> list[RecipeFile]:
    """Recipes by path, by name, or by selectors over the recipes of a folder; all of them without words."""
    paths = [word for word in words if word.endswith(".nix") or "/" in word or Path(word).is_dir()]
    rest = [word for word in words if word not in paths]
    found = [recipe for word in paths for recipe in _at(Path(word), catalog)]
    if rest or not words:
        found += _selected(rest, folder, catalog)
    return _distinct(list(dict.fromkeys(found)), Path("/")) if paths else found


def _at(path: Path, catalog: Catalog) -> list[RecipeFile]:
    if path.is_dir():
        found = recipes_in(path, catalog)
        if not found:
            raise Problem(
                f"there is no recipe in {path}", hint=f"recipes are .nix files, or lie below {PKGS}"
            )
        return found
    if not path.is_file():
        raise Problem(f"there is no {path}")
    return [_recipe(path, catalog)]


def _selected(words: Sequence[str], folder: Path, catalog: Catalog) -> list[RecipeFile]:
    known = recipes_in(folder, catalog)
    if not known:
        raise Problem(
            f"there is no recipe in {folder}",
            hint="torchsmith generate writes them; or give the path of a recipe or a repository",
        )
    named = [recipe for recipe in known if recipe.name in words]
    others = [word for word in words if word not in {recipe.name for recipe in named}]
    if not others:
        return named if words else known
    if any(word.count("-") >= 2 and "*" not in word for word in others):
        missing = next(word for word in others if word.count("-") >= 2)
        hint = did_you_mean(missing, [recipe.name for recipe in known])
        raise Problem(f"there is no recipe {missing} in {folder}", hint=hint)
    selector = Selector.parse(others, catalog)
    picked = [recipe for recipe in known if _matches(recipe, selector, catalog)]
    if not picked:
        raise Problem(f"no recipe in {folder} matches {' '.join(others)}")
    return [*named, *(recipe for recipe in picked if recipe not in named)]


def _matches(recipe: RecipeFile, selector: Selector, catalog: Catalog) -> bool:
    try:
        variant = read_name(recipe.name.rpartition("/")[2]).variant
    except BadName:
        return False
    return selector.matches(variant, "", catalog)
