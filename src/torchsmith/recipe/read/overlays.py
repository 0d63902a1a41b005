"""Overlays: which packages each of them changes, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast, get_args

from torchsmith.recipe.read.live import resolved
from torchsmith.recipe.read.said import Overlay, OverrideKind
from torchsmith.recipe.read.scope import attr_names, bindings_of, names_of, statements
from torchsmith.recipe.read.syntax import Syntax, part

if TYPE_CHECKING:
    from tree_sitter import Node

SETS = ("attrset_expression", "rec_attrset_expression")
# By the kind of an expression, the part of it that is its value.
BODIES = ("function_expression", "let_expression", "with_expression", "assert_expression")
ENDS = dict.fromkeys(BODIES, "body") | {
    "parenthesized_expression": "expression",
    "binary_expression": "right",
}
OVERRIDES = get_args(OverrideKind)


def body_of(node: Node | None) -> Node | None:
    """The set that a function, a parenthesis, a let or an `a // { }` ends in."""
    while node is not None and node.type not in SETS:
        node = part(node, ENDS[node.type]) if node.type in ENDS else None
    return node


def read_overlays(syntax: Syntax, arguments: Node) -> Iterator[Overlay]:
    """The overlays in the arguments of an import of nixpkgs, in order."""
    for one in bindings_of(syntax, arguments, ("overlays",)):
        for element in _elements(syntax, one):
            function = resolved(syntax, element)
            changed = tuple(_changed(syntax, function, ""))
            yield Overlay(changed, syntax.span(element), body_of(function) is not None)


def _elements(syntax: Syntax, node: Node) -> Iterator[Node]:
    """The elements of a list, also of lists that are joined; what is no list stands for itself."""
    node = resolved(syntax, node)
    if node.type == "list_expression":
        yield from (one for one in node.named_children if one.type != "comment")
    elif node.type == "binary_expression":
        for side in ("left", "right"):
            yield from _elements(syntax, part(node, side))
    else:
        yield node


def _changed(syntax: Syntax, function: Node, prefix: str) -> Iterator[str]:
    """What the set at the end of an overlay sets; an override of a package set counts by its packages."""
    body = body_of(function)
    for one in statements(body) if body is not None else ():
        if one.type != "binding":
            yield from (f"{prefix}{name}" for name in names_of(syntax, one))
            continue
        package = prefix + ".".join(name or "?" for name in attr_names(syntax, part(one, "attrpath")))
        inner = _package_overrides(syntax, part(one, "expression"))
        if inner is not None:
            yield from _changed(syntax, inner, f"{package}.")
        else:
            yield package


def override_kind(syntax: Syntax, function: Node) -> OverrideKind | None:
    """Which kind of override a function such as `pkgs.magma.overrideAttrs` is."""
    path = function.child_by_field_name("attrpath")
    name = attr_names(syntax, path)[-1] if path is not None else None
    return cast("OverrideKind", name) if name in OVERRIDES else None


def _way(syntax: Syntax, node: Node) -> OverrideKind | None:
    """The last override that an expression applies."""
    while node.type == "parenthesized_expression":
        node = part(node, "expression")
    return override_kind(syntax, part(node, "function")) if node.type == "apply_expression" else None


def _package_overrides(
    syntax: Syntax, node: Node, names: Collection[str] = ("overrides", "packageOverrides")
) -> Node | None:
    """The function in `python3Packages.override { overrides = pfinal: pprev: { ... }; }`."""
    if _way(syntax, node) != "override":
        return None
    argument = body_of(node.child_by_field_name("argument"))
    return next(bindings_of(syntax, argument, names), None) if argument is not None else None


def package_scope(syntax: Syntax, node: Node) -> Node | None:
    """The function that makes a set of packages of its own: python3Packages.overrideScope, or
    `python3.override { packageOverrides = ...; }`."""
    if _way(syntax, node) == "overrideScope":
        return node.child_by_field_name("argument")
    return _package_overrides(syntax, node, ("packageOverrides",))
