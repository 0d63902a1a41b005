"""Setting one value in a TOML file, and nothing else: comments, order and spelling stay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchsmith.edge.problem import Problem
from torchsmith.edge.toml import keys_of, value_of

if TYPE_CHECKING:
    from tree_sitter import Node


def set_string(text: str, path: Sequence[str], value: str) -> str:
    """The text with the string at `path` set: replaced, added to its table, or added with its table."""
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    data = text.encode()
    root = Parser(Language(tree_sitter_toml.language())).parse(data).root_node
    written = json.dumps(value, ensure_ascii=False)
    wanted = tuple(path)
    found = _value(root, wanted)
    if found is not None:
        return (data[: found.start_byte] + written.encode() + data[found.end_byte :]).decode()
    table = _table(root, wanted[:-1])
    line = f"{_key(wanted[-1])} = {written}\n"
    if table is None:
        if _value(root, wanted[:-1]) is not None:
            raise Problem(
                f"cannot add {wanted[-1]} to an inline table", hint=f"write {line.strip()} there by hand"
            )
        head = f"[{'.'.join(map(_key, wanted[:-1]))}]\n" if wanted[:-1] else ""
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{head}{line}"
    last = [child for child in table.children if child.type not in ("comment",)][-1]
    end = data.find(b"\n", last.end_byte)
    end = len(data) if end < 0 else end + 1
    before = data[:end].decode()
    return before + ("" if before.endswith("\n") else "\n") + line + data[end:].decode()


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(root: Node, wanted: tuple[str, ...]) -> Node | None:
    """The node of the value at a path, in tables and inline tables."""
    for node in root.children:
        if node.type == "pair":
            found = _in_pair(node, (), wanted)
        elif node.type == "table":
            prefix = _head(node)
            pairs = [child for child in node.children if child.type == "pair"]
            found = next((one for pair in pairs if (one := _in_pair(pair, prefix, wanted))), None)
        else:
            continue
        if found is not None:
            return found
    return None


def _in_pair(node: Node, prefix: tuple[str, ...], wanted: tuple[str, ...]) -> Node | None:
    path = prefix + keys_of(node.children[0])
    value: Node = value_of(node)
    if path == wanted:
        return value
    if value.type == "inline_table" and wanted[: len(path)] == path:
        pairs = [child for child in value.children if child.type == "pair"]
        return next((one for pair in pairs if (one := _in_pair(pair, path, wanted))), None)
    return None


def _table(root: Node, wanted: tuple[str, ...]) -> Node | None:
    return next((node for node in root.children if node.type == "table" and _head(node) == wanted), None)


def _head(node: Node) -> tuple[str, ...]:
    kinds = ("bare_key", "quoted_key", "dotted_key")
    return keys_of(next(child for child in node.children if child.type in kinds))
