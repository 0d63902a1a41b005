"""Which parts of a file count: branches that its values do not switch off, and imports that something
uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchsmith.recipe.read.fold import OPTIONAL, ConstantFolder
from torchsmith.recipe.read.scope import bound_to, names_of
from torchsmith.recipe.read.syntax import Syntax, part

if TYPE_CHECKING:
    from tree_sitter import Node

STEPS = 8  # variables that stand for each other


def dead_parts(syntax: Syntax, folder: ConstantFolder) -> Iterator[tuple[int, int]]:
    """Stretches that are never evaluated, by values that are plain."""
    for node in syntax.captures.get("if", ()):
        value = folder.fold(part(node, "condition"))
        if isinstance(value, bool):
            other = part(node, "alternative" if value else "consequence")
            yield other.start_byte, other.end_byte
    for node in syntax.calls_with(b"optional"):
        words, arguments = folder.call(node)
        known = words.rpartition(".")[2] in OPTIONAL and len(arguments) == 2
        if known and folder.fold(arguments[0]) is False:
            yield arguments[1].start_byte, arguments[1].end_byte


def resolved(syntax: Syntax, node: Node) -> Node:
    """What a variable stands for."""
    for _ in range(STEPS):
        while node.type == "parenthesized_expression":
            node = part(node, "expression")
        bound = bound_to(syntax, node)
        if bound is None:
            break
        node = bound
    return node


def is_nixpkgs(syntax: Syntax, source: Node) -> bool:
    """Whether what is imported is nixpkgs, by its address or its name; a file beside the recipe is not."""
    target = resolved(syntax, source)
    text = syntax.text(target).lower()
    return "nixpkgs" in text or text.endswith("pkgs.path") or "nixpkgs" in syntax.text(source).lower()


def is_used(syntax: Syntax, node: Node) -> bool:
    """Whether anything reads the value of an expression; a default that a caller replaces does not count."""
    parent = node.parent
    while parent is not None and parent.type not in ("binding", "formal"):
        if parent.type in ("let_expression", "function_expression", "with_expression"):
            return True  # it is in what the file gives, not in a name
        parent = parent.parent
    if parent is None:
        return True
    if parent.type == "formal":
        return False
    home = parent.parent.parent if parent.parent is not None else None
    if home is None or home.type != "let_expression":
        return True
    name = next(iter(names_of(syntax, parent)), None)
    return name in syntax.inherited_names or any(
        syntax.text(one) == name and not parent.start_byte <= one.start_byte < parent.end_byte
        for one in syntax.variables
    )
