"""Opening a recipe, and following a wrapper to the file that holds the substance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torchsmith.edge.files import read_text
from torchsmith.edge.problem import TooLarge, Where
from torchsmith.recipe.read.fold import parsed_file
from torchsmith.recipe.read.recipe import Recipe
from torchsmith.recipe.read.said import Unknown, Value
from torchsmith.recipe.read.syntax import Syntax, Unreadable, parse

MAX_WRAPPERS = 8
# Asked for the canonical text of a file that the grammar cannot read; None where no Nix is installed.
Asker = Callable[[Path], str | None]


def read_text_as_recipe(data: bytes, path: Path) -> Recipe:
    """A recipe from its text alone; a wrapper is not followed."""
    return Recipe(path, parse(data, str(path)))


def read_recipe(path: Path, *, ask: Asker | None = None) -> Recipe:
    """A recipe and, where it only wraps another file, that file too; Unreadable says what is not valid."""
    return _read(path, {}, ask, 0)


def _read(path: Path, given: Mapping[str, Value], ask: Asker | None, depth: int) -> Recipe:
    # The file that many wrappers lead to is read once.
    shared = parsed_file(path) if depth else None
    recipe = Recipe(path, shared or _syntax(path, ask), given)
    wrapper = recipe.wrapper
    if wrapper is None:
        return recipe
    target = (path.parent / wrapper.path).resolve()
    if target.is_dir():
        target /= "default.nix"
    if depth >= MAX_WRAPPERS:
        where = Where(str(path), wrapper.span.line, wrapper.span.column)
        raise TooLarge(f"wrappers lead from one to the next more than {MAX_WRAPPERS} times", where=where)
    if not target.is_file():
        return recipe
    passed = {
        name: said.value for name, said in wrapper.arguments.items() if not isinstance(said.value, Unknown)
    }
    return Recipe(path, recipe.syntax, given, _read(target, passed, ask, depth + 1))


def _syntax(path: Path, ask: Asker | None) -> Syntax:
    data = read_text(path).encode()
    try:
        return parse(data, str(path))
    except Unreadable:
        told = ask(path) if ask else None
        if told is None:
            raise
        plain = parse(told.encode(), str(path))
        return Syntax(plain.data, plain.tree, str(path), exact=False)
