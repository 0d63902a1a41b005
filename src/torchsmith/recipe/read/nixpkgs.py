"""Where a recipe imports nixpkgs, what it passes (system, config, overlays), and what those change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, cast, get_args

from torchsmith.recipe.read.located import Located, NixpkgsImport, Overlay, OverrideKind, Value, as_text
from torchsmith.recipe.read.scope import attr_names, bindings_of, names_of, resolved, statements, unwrapped
from torchsmith.recipe.read.syntax import Syntax, part
from torchsmith.recipe.read.tree import RecipeTree

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


def nixpkgs_imports(tree: RecipeTree) -> Iterator[NixpkgsImport]:
    """Imports of nixpkgs whose value is used. The default of an argument is not: the caller of the
    recipe passes it."""
    for node in filter(tree.alive, tree.syntax.calls_with(b"import")):
        function, arguments = tree.folder.call(node)
        if function not in ("import", "builtins.import") or len(arguments) != 2:
            continue
        if not _is_nixpkgs(tree.syntax, arguments[0]) or not _is_used(tree.syntax, node):
            continue
        yield _import(tree, node, arguments)


def _import(tree: RecipeTree, node: Node, arguments: list[Node]) -> NixpkgsImport:
    passed = _attributes(tree, arguments[1])
    fields = passed or {}
    nested = {name.removeprefix("config."): value for name, value in fields.items() if "config." in name}
    config = _config(tree, arguments[1], fields)
    listed = fields.get("overlays")
    overlays = tuple(_overlays(tree.syntax, arguments[1]))
    understood = bool(overlays) and all(overlay.understood for overlay in overlays)
    plain = listed is None or listed.value == [] or understood
    return NixpkgsImport(
        arguments=frozenset(name.partition(".")[0] for name in fields),
        system=as_text(fields.get("system")),
        config=nested | dict(config or {}),
        overlays=overlays,
        span=tree.syntax.span(node),
        complete=passed is not None and config is not None and plain,
    )


def _attributes(tree: RecipeTree, node: Node) -> Mapping[str, Located[Value]] | None:
    """The attributes of a set, also of one that is put together; None if that needs an evaluation."""
    node = resolved(tree.syntax, node)
    if node.type in SETS:
        return tree.fields(node)
    value = tree.folder.fold(node)
    if not isinstance(value, dict):
        return None
    return {name: Located(entry, tree.syntax.span(node)) for name, entry in value.items()}


def _config(
    tree: RecipeTree, arguments: Node, fields: Mapping[str, Located[Value]]
) -> Mapping[str, Located[Value]] | None:
    for stated in bindings_of(tree.syntax, resolved(tree.syntax, arguments), ("config",)):
        return _attributes(tree, stated)
    config = fields.get("config")
    if config is None:
        return {}
    if not isinstance(config.value, dict):
        return None
    return {name: Located(setting, config.span) for name, setting in config.value.items()}


def _is_nixpkgs(syntax: Syntax, source: Node) -> bool:
    """Whether what is imported is nixpkgs, by its address or its name; a file beside the recipe is not."""
    target = resolved(syntax, source)
    text = syntax.text(target).lower()
    return "nixpkgs" in text or text.endswith("pkgs.path") or "nixpkgs" in syntax.text(source).lower()


def _is_used(syntax: Syntax, node: Node) -> bool:
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
        syntax.text(variable) == name and not parent.start_byte <= variable.start_byte < parent.end_byte
        for variable in syntax.variables
    )


def body_of(node: Node | None) -> Node | None:
    """The set that a function, a parenthesis, a let or an `a // { }` ends in."""
    while node is not None and node.type not in SETS:
        node = part(node, ENDS[node.type]) if node.type in ENDS else None
    return node


def _overlays(syntax: Syntax, arguments: Node) -> Iterator[Overlay]:
    """The overlays in the arguments of an import of nixpkgs, in order."""
    for binding in bindings_of(syntax, arguments, ("overlays",)):
        for element in _elements(syntax, binding):
            function = resolved(syntax, element)
            changed = tuple(_changed(syntax, function, ""))
            yield Overlay(changed, syntax.span(element), body_of(function) is not None)


def _elements(syntax: Syntax, node: Node) -> Iterator[Node]:
    """The elements of a list, also of lists that are joined; what is not a list is one element."""
    node = resolved(syntax, node)
    if node.type == "list_expression":
        yield from (child for child in node.named_children if child.type != "comment")
    elif node.type == "binary_expression":
        for side in ("left", "right"):
            yield from _elements(syntax, part(node, side))
    else:
        yield node


def _changed(syntax: Syntax, function: Node, prefix: str) -> Iterator[str]:
    """What the set at the end of an overlay sets; an override of a package set counts by its packages."""
    body = body_of(function)
    for statement in statements(body) if body is not None else ():
        if statement.type != "binding":
            yield from (f"{prefix}{name}" for name in names_of(syntax, statement))
            continue
        package = prefix + ".".join(name or "?" for name in attr_names(syntax, part(statement, "attrpath")))
        inner = _package_overrides(syntax, part(statement, "expression"))
        if inner is not None:
            yield from _changed(syntax, inner, f"{package}.")
        else:
            yield package


def override_kind(syntax: Syntax, function: Node) -> OverrideKind | None:
    """Which kind of override a function such as `pkgs.magma.overrideAttrs` is."""
    path = function.child_by_field_name("attrpath")
    name = attr_names(syntax, path)[-1] if path is not None else None
    return cast("OverrideKind", name) if name in OVERRIDES else None


def _applied_override(syntax: Syntax, node: Node) -> OverrideKind | None:
    """The last override that an expression applies."""
    return override_kind(syntax, part(node, "function")) if node.type == "apply_expression" else None


def _package_overrides(
    syntax: Syntax, node: Node, names: Collection[str] = ("overrides", "packageOverrides")
) -> Node | None:
    """The function in `python3Packages.override { overrides = pfinal: pprev: { ... }; }`."""
    node = unwrapped(node)
    if _applied_override(syntax, node) != "override":
        return None
    argument = body_of(node.child_by_field_name("argument"))
    return next(bindings_of(syntax, argument, names), None) if argument is not None else None


def package_scope(syntax: Syntax, node: Node) -> Node | None:
    """The function that makes a set of packages of its own: python3Packages.overrideScope, or
    `python3.override { packageOverrides = ...; }`."""
    if _applied_override(syntax, node) == "overrideScope":
        return node.child_by_field_name("argument")
    return _package_overrides(syntax, node, ("packageOverrides",))
