"""Packages that a recipe defines itself, as nixpkgs would, apart from what it then says of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from torchsmith.recipe.read.recipe import Recipe
from torchsmith.recipe.read.syntax import Unreadable, parse, part

if TYPE_CHECKING:
    from tree_sitter import Node


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
        return Recipe(recipe.path, parse(bytes(data), recipe.syntax.file), recipe.given)
    except Unreadable:
        return recipe


def _definitions(recipe: Recipe) -> Iterator[Node]:
    """The functions that are called as packages where they stand."""
    for node in recipe.syntax.calls_with(b"callPackage"):
        argument = part(node, "argument")
        if argument.type != "parenthesized_expression":
            continue
        called = recipe.syntax.text(part(node, "function")).rpartition(".")[2]
        inner = part(argument, "expression")
        if called == "callPackage" and inner.type == "function_expression":
            yield inner
