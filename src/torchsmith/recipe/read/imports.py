"""Where a recipe imports nixpkgs, and what it tells it: system, config, overlays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from torchsmith.recipe.read.live import is_nixpkgs, is_used, resolved
from torchsmith.recipe.read.overlays import SETS, read_overlays
from torchsmith.recipe.read.said import NixpkgsImport, Said, Value
from torchsmith.recipe.read.scope import bindings_of
from torchsmith.recipe.read.tree import RecipeTree

if TYPE_CHECKING:
    from tree_sitter import Node


def nixpkgs_imports(tree: RecipeTree) -> Iterator[NixpkgsImport]:
    """Imports of nixpkgs whose value is used. The default of an argument is not: whoever builds the
    recipe passes it."""
    for node in filter(tree.alive, tree.syntax.calls_with(b"import")):
        function, arguments = tree.folder.call(node)
        if function not in ("import", "builtins.import") or len(arguments) != 2:
            continue
        if not is_nixpkgs(tree.syntax, arguments[0]) or not is_used(tree.syntax, node):
            continue
        yield _import(tree, node, arguments)


def _import(tree: RecipeTree, node: Node, arguments: list[Node]) -> NixpkgsImport:
    told = _told(tree, arguments[1])
    fields = told or {}
    nested = {name.removeprefix("config."): said for name, said in fields.items() if "config." in name}
    config = _config(tree, arguments[1], fields)
    listed = fields.get("overlays")
    overlays = tuple(read_overlays(tree.syntax, arguments[1]))
    seen = listed is None or (bool(overlays) and all(one.understood for one in overlays))
    seen = seen or (listed is not None and listed.value == [])
    system = fields.get("system")
    return NixpkgsImport(
        told=frozenset(name.partition(".")[0] for name in fields),
        system=Said(system.value, system.span) if system and isinstance(system.value, str) else None,
        config=nested | dict(config or {}),
        overlays=overlays,
        span=tree.syntax.span(node),
        whole=told is not None and config is not None and seen,
    )


def _told(tree: RecipeTree, node: Node) -> dict[str, Said[Value]] | None:
    """The attributes of a set, also of one that is put together; None where that needs an evaluation."""
    node = resolved(tree.syntax, node)
    if node.type in SETS:
        return tree.fields(node)
    value = tree.folder.fold(node)
    if not isinstance(value, dict):
        return None
    return {name: Said(one, tree.syntax.span(node)) for name, one in value.items()}


def _config(
    tree: RecipeTree, arguments: Node, fields: Mapping[str, Said[Value]]
) -> Mapping[str, Said[Value]] | None:
    for stated in bindings_of(tree.syntax, resolved(tree.syntax, arguments), ("config",)):
        return _told(tree, stated)
    said = fields.get("config")
    if said is None:
        return {}
    if not isinstance(said.value, dict):
        return None
    return {name: Said(one, said.span) for name, one in said.value.items()}
