"""Which binding a name means: Nix' lexical scoping, looked up by climbing the tree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchsmith.recipe.read.syntax import Meaning, Scope, Syntax, part

if TYPE_CHECKING:
    from tree_sitter import Node

# Names that are bound everywhere, before any `with`.
# Those that begin with two underscores are bound too, whatever their names.
BUILTINS = frozenset(
    """
    abort baseNameOf break builtins derivation derivationStrict dirOf false fetchGit fetchMercurial
    fetchTarball fetchTree fromTOML import isNull map null placeholder removeAttrs scopedImport throw
    toString true
    """.split()  # noqa: SIM905
)

PLAIN_NAMES = re.compile(rb"[A-Za-z_][A-Za-z0-9_'.-]*")  # a path that can be split at its dots
STATEMENTS = ("binding", "inherit", "inherit_from")
MAX_ALIASES = 8  # aliases are followed so far


def static_name(syntax: Syntax, attr: Node) -> str | None:
    """An attribute name that needs no evaluation."""
    if attr.type == "identifier":
        return syntax.text(attr)
    if attr.type == "string_expression" and all(c.type in ('"', "string_fragment") for c in attr.children):
        return syntax.text(attr)[1:-1]
    return None


def attr_names(syntax: Syntax, path: Node) -> list[str | None]:
    """The parts of an attribute path."""
    text = syntax.data[path.start_byte : path.end_byte]
    if PLAIN_NAMES.fullmatch(text):
        return list(text.decode().split("."))
    return [static_name(syntax, child) for child in path.named_children if child.type != "comment"]


def statements(node: Node) -> Iterator[Node]:
    """The bindings and inherits of a set or a let."""
    for child in node.children:
        if child.type == "binding_set":
            yield from (inner for inner in child.children if inner.type in STATEMENTS)


def bindings_of(syntax: Syntax, node: Node, names: Collection[str]) -> Iterator[Node]:
    """What a set binds to one of these names, in order."""
    for statement in statements(node):
        if statement.type == "binding" and syntax.text(part(statement, "attrpath")) in names:
            yield part(statement, "expression")


def names_of(syntax: Syntax, statement: Node) -> list[str | None]:
    """The names that a statement binds in its set."""
    if statement.type == "binding":
        return attr_names(syntax, part(statement, "attrpath"))[:1]
    return attr_names(syntax, part(statement, "attrs"))


def formal_nodes(function: Node) -> Iterator[Node]:
    formals = function.child_by_field_name("formals")
    if formals is not None:
        yield from (child for child in formals.children if child.type == "formal")


def lookup(syntax: Syntax, node: Node, name: str) -> Meaning:
    """What `name` means at `node`."""
    scope = syntax.scope_of(node)
    if node.type == "inherit" and scope and node.parent and scope.node == node.parent.parent:
        scope = scope.outer  # `inherit x;` means the x outside of its own set
    return _meaning(syntax, scope, name)


def _meaning(syntax: Syntax, scope: Scope | None, name: str) -> Meaning:
    """What a name means in a scope."""
    if scope is None:
        return Meaning("builtin" if name in BUILTINS or name.startswith("__") else "unbound")
    if name not in scope.meanings:
        nodes = _names(syntax, scope).get(name)
        if nodes is None:
            meaning = _meaning(syntax, scope.outer, name)
            opened = scope.node.type == "with_expression" and meaning.kind == "unbound"
            scope.meanings[name] = Meaning("with") if opened else meaning
        else:
            scope.meanings[name] = _bound(syntax, scope.node, name, nodes)
    return scope.meanings[name]


def names_of_all(syntax: Syntax) -> set[str]:
    """Names that mean something everywhere in a file: builtins, and what scopes around all of it bind."""
    names, node = set(BUILTINS), syntax.root
    while node.type in ("function_expression", "let_expression"):
        node = part(node, "body")
        if scope := syntax.scope_of(node):
            names |= _names(syntax, scope).keys()
    return names


def bound_to(syntax: Syntax, node: Node) -> Node | None:
    """The expression that a variable is bound to; None for everything else."""
    return lookup(syntax, node, syntax.text(node)).expression if node.type == "variable_expression" else None


def unwrapped(node: Node) -> Node:
    """An expression without the parentheses around it."""
    while node.type == "parenthesized_expression":
        node = part(node, "expression")
    return node


def resolved(syntax: Syntax, node: Node) -> Node:
    """The value of a variable."""
    node = unwrapped(node)
    for _ in range(MAX_ALIASES):
        bound = bound_to(syntax, node)
        if bound is None:
            break
        node = unwrapped(bound)
    return node


def _names(syntax: Syntax, scope: Scope) -> dict[str, tuple[Node, ...]]:
    """What a scope binds, by name; a whole argument has no statement."""
    if scope.names is None:
        if scope.node.type == "function_expression":
            scope.names = _arguments(syntax, scope.node)
        else:
            scope.names = {}
            for statement in statements(scope.node):
                for name in filter(None, names_of(syntax, statement)):
                    scope.names[name] = (*scope.names.get(name, ()), statement)
    return scope.names


def _bound(syntax: Syntax, home: Node, name: str, nodes: tuple[Node, ...]) -> Meaning:
    if home.type == "function_expression":
        return Meaning("formal" if nodes else "argument", home, nodes)
    if len(nodes) == 1 and nodes[0].type == "inherit":
        return lookup(syntax, nodes[0], name)
    return Meaning("let" if home.type == "let_expression" else "rec", home, nodes)


def _arguments(syntax: Syntax, function: Node) -> dict[str, tuple[Node, ...]]:
    universal = function.child_by_field_name("universal")
    table: dict[str, tuple[Node, ...]] = {syntax.text(universal): ()} if universal is not None else {}
    return table | {syntax.text(part(node, "name")): (node,) for node in formal_nodes(function)}


@dataclass(frozen=True, slots=True)
class Free:
    """Names that an expression takes from outside; those under a `with` of its own may come from there."""

    certain: set[str]
    under_with: set[str]


def free_names(syntax: Syntax) -> Free:
    """The names in a text that nothing inside of it binds."""
    inherits = syntax.captures.get("inherit", ())
    uses = [(node, syntax.text(node)) for node in syntax.variables]
    uses += [(node, name) for node in inherits for name in names_of(syntax, node) if name]
    free = Free(set(), set())
    for node, name in uses:
        kind = lookup(syntax, node, name).kind
        if kind == "with":
            free.under_with.add(name)
        elif kind in ("unbound", "builtin"):
            free.certain.add(name)
    return free
