"""Overlays: which packages each of them changes, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from torchsmith.recipe.read.said import Overlay, OverlayChange, OverrideKind, Way
from torchsmith.recipe.read.scope import attr_names, lookup, names_of, statements
from torchsmith.recipe.read.syntax import Syntax

if TYPE_CHECKING:
    from tree_sitter import Node

SETS = ("attrset_expression", "rec_attrset_expression")


def body_of(node: Node | None) -> Node | None:
    """The set that a function, a parenthesis, a let or an `a // { }` ends in."""
    while node is not None and node.type not in SETS:
        if node.type in ("function_expression", "let_expression", "with_expression", "assert_expression"):
            node = node.child_by_field_name("body")
        elif node.type == "parenthesized_expression":
            node = node.child_by_field_name("expression")
        elif node.type == "binary_expression":
            node = node.child_by_field_name("right")
        else:
            return None
    return node


def read_overlays(syntax: Syntax, arguments: Node) -> Iterator[Overlay]:
    """The overlays in the arguments of an import of nixpkgs, in order."""
    for one in statements(arguments):
        path, expression = one.child_by_field_name("attrpath"), one.child_by_field_name("expression")
        if path is None or expression is None or syntax.text(path) != "overlays":
            continue
        for element in _elements(syntax, expression):
            function = _resolved(syntax, element)
            changes = tuple(_changes(syntax, function, ""))
            yield Overlay(changes, syntax.text(function), syntax.span(element), body_of(function) is not None)


def _elements(syntax: Syntax, node: Node) -> Iterator[Node]:
    """The elements of a list, also of lists that are joined; what is no list stands for itself."""
    node = _resolved(syntax, node)
    if node.type == "list_expression":
        yield from (one for one in node.named_children if one.type != "comment")
    elif node.type == "binary_expression":
        for side in ("left", "right"):
            inner = node.child_by_field_name(side)
            if inner is not None:
                yield from _elements(syntax, inner)
    else:
        yield node


def _resolved(syntax: Syntax, node: Node) -> Node:
    """What a variable stands for."""
    for _ in range(8):
        if node.type != "variable_expression":
            break
        bound = lookup(syntax, node, syntax.text(node)).expression
        if bound is None:
            break
        node = bound
    return node


def _changes(syntax: Syntax, function: Node, prefix: str) -> Iterator[OverlayChange]:
    """What the set at the end of an overlay sets; an override of a package set counts by its packages."""
    body = body_of(function)
    for one in statements(body) if body is not None else ():
        if one.type != "binding":
            for name in names_of(syntax, one):
                yield OverlayChange(f"{prefix}{name}", "set", syntax.span(one))
            continue
        path, expression = one.child_by_field_name("attrpath"), one.child_by_field_name("expression")
        if path is None or expression is None:
            continue
        package = prefix + ".".join(name or "?" for name in attr_names(syntax, path))
        inner = _package_overrides(syntax, expression)
        if inner is not None:
            yield from _changes(syntax, inner, f"{package}.")
        else:
            yield OverlayChange(package, _way(syntax, expression), syntax.span(one))


def override_kind(syntax: Syntax, function: Node | None) -> OverrideKind | None:
    """Which kind of override a function such as `pkgs.magma.overrideAttrs` is."""
    path = function.child_by_field_name("attrpath") if function is not None else None
    match attr_names(syntax, path)[-1] if path is not None else None:
        case "override":
            return "override"
        case "overrideAttrs":
            return "overrideAttrs"
        case "overridePythonAttrs":
            return "overridePythonAttrs"
        case "overrideScope":
            return "overrideScope"
        case _:
            return None


def _way(syntax: Syntax, node: Node) -> Way:
    """The last override that an expression applies, or a plain setting."""
    while node.type == "parenthesized_expression" and node.named_children:
        node = node.named_children[0]
    if node.type != "apply_expression":
        return "set"
    return override_kind(syntax, node.child_by_field_name("function")) or "set"


def _package_overrides(
    syntax: Syntax, node: Node, names: Collection[str] = ("overrides", "packageOverrides")
) -> Node | None:
    """The function in `python3Packages.override { overrides = pfinal: pprev: { ... }; }`."""
    if _way(syntax, node) != "override":
        return None
    argument = body_of(node.child_by_field_name("argument"))
    for one in statements(argument) if argument is not None else ():
        path = one.child_by_field_name("attrpath")
        if path is not None and syntax.text(path) in names:
            return one.child_by_field_name("expression")
    return None


def package_scope(syntax: Syntax, node: Node) -> Node | None:
    """The function that makes a set of packages of its own: python3Packages.overrideScope, or
    `python3.override { packageOverrides = ...; }`."""
    if _way(syntax, node) == "overrideScope":
        return node.child_by_field_name("argument")
    return _package_overrides(syntax, node, ("packageOverrides",))
