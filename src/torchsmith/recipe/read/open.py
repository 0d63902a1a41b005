"""Opening a recipe, following a wrapper to the file that has the substance, and reading it without the
packages that it defines itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.core.files import read_text
from torchsmith.core.problem import TooLarge, Where
from torchsmith.recipe.read.fold import parsed_file
from torchsmith.recipe.read.located import Unknown, Value
from torchsmith.recipe.read.recipe import Recipe
from torchsmith.recipe.read.syntax import CONFLICT, Syntax, Unreadable, parse, part

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WRAPPERS = 8
# Asked for the canonical text of a file that the grammar cannot read; None if no Nix is installed.
Asker = Callable[[Path], str | None]


def read_text_as_recipe(data: bytes, path: Path) -> Recipe:
    """A recipe from its text alone; a wrapper is not followed."""
    return Recipe(path, parse(data, str(path)))


def read_recipe(path: Path, *, ask: Asker | None = None) -> Recipe:
    """A recipe and, if it only wraps another file, that file too; Unreadable says what is not valid."""
    return _read(path, {}, ask, 0)


def _read(path: Path, arguments: Mapping[str, Value], ask: Asker | None, depth: int) -> Recipe:
    # The file that many wrappers lead to is read once.
    shared = parsed_file(path) if depth else None
    recipe = Recipe(path, shared or _syntax(path, ask), arguments)
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
    values = {name: argument.value for name, argument in wrapper.arguments.items()}
    passed = {name: value for name, value in values.items() if not isinstance(value, Unknown)}
    return Recipe(path, recipe.syntax, arguments, _read(target, passed, ask, depth + 1))


def _syntax(path: Path, ask: Asker | None) -> Syntax:
    data = read_text(path).encode()
    try:
        return parse(data, str(path))
    except Unreadable:
        canonical = ask(path) if ask and not CONFLICT.search(data) else None
        if canonical is None:
            raise
        plain = parse(canonical.encode(), str(path))
        return Syntax(plain.data, plain.tree, str(path), exact=False)


def without_definitions(recipe: Recipe, names: Collection[str]) -> Recipe:
    """The recipe as if nixpkgs had the packages that it defines by callPackage; places stay as they are."""
    data = bytearray(recipe.syntax.data)
    for node in _definitions(recipe):
        owner = recipe.owner_of(node).rpartition(".")[2]
        name = owner if owner in names else next(iter(names))
        text = bytes(data[node.start_byte : node.end_byte])
        blank = bytes(byte if byte == 10 else 32 for byte in text)
        stand_in = f"pkgs.{name}".encode()
        data[node.start_byte : node.end_byte] = stand_in + blank[len(stand_in) :]
    if data == recipe.syntax.data:
        return recipe
    try:
        return Recipe(recipe.path, parse(bytes(data), recipe.syntax.file), recipe.passed)
    except Unreadable:
        return recipe


def _definitions(recipe: Recipe) -> Iterator[Node]:
    """Functions that `callPackage` calls in the place of their definition."""
    for node in recipe.syntax.calls_with(b"callPackage"):
        argument = part(node, "argument")
        if argument.type != "parenthesized_expression":
            continue
        function = recipe.syntax.text(part(node, "function")).rpartition(".")[2]
        inner = part(argument, "expression")
        if function == "callPackage" and inner.type == "function_expression":
            yield inner
