"""Changing one value in a TOML file, and nothing else: comments, order and spelling stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchsmith.edge.problem import Invalid
from torchsmith.edge.toml import keys_of, value_of

if TYPE_CHECKING:
    from tree_sitter import Node


def set_string(text: str, path: Sequence[str], value: str) -> str:
    """The text with the string at `path` set: replaced, added to its table, or added with its table."""
    data = text.encode()
    root = _parsed(data)
    written = _quoted(value)
    wanted = tuple(path)
    found = _value(root, wanted)
    if found is not None:
        return (data[: found.start_byte] + written.encode() + data[found.end_byte :]).decode()
    table = _table(root, wanted[:-1])
    line = f"{_key(wanted[-1])} = {written}\n"
    if table is None:
        if _value(root, wanted[:-1]) is not None:
            raise Invalid(
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


def set_list(text: str, key: str, values: Sequence[str]) -> str:
    """The text with a list of strings at its top: elements that stay keep their comments and spelling."""
    data = text.encode()
    root = _parsed(data)
    found = _value(root, (key,))
    if found is None or found.type != "array":
        line = f"{key} = [{', '.join(map(_quoted, values))}]\n"
        pairs = [child for child in root.children if child.type == "pair"]
        if not pairs:
            return line + (f"\n{text}" if text else "")
        end = data.find(b"\n", pairs[-1].end_byte) + 1 or len(data)
        before = data[:end].decode()
        return before + ("" if before.endswith("\n") else "\n") + line + data[end:].decode()
    elements = [child for child in found.children if child.is_named and child.type != "comment"]
    held = [tomllib.loads(f"key = {child.text.decode()}")["key"] for child in elements if child.text]
    for child, value in reversed([*zip(elements, held, strict=True)]):
        if value not in values:
            data = _without(data, child, found)
    added = "".join(f", {_quoted(value)}" for value in values if value not in held)
    return _appended(data, key, added).decode() if added else data.decode()


def drop_tables(text: str, name: str) -> str:
    """The text without a table, the tables below it, and the comments that stand right above them."""
    lines = text.splitlines(keepends=True)
    gone: set[int] = set()
    for node in _parsed(text.encode()).children:
        if node.type in ("table", "table_array_element") and _head(node)[0] == name:
            last = [child for child in node.children if child.type != "comment"][-1]
            first = node.start_point[0]
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if first and not lines[first - 1].strip():
                first -= 1
            gone |= set(range(first, last.end_point[0] + 1))
        elif node.type == "pair" and keys_of(node.children[0])[0] == name:
            gone |= set(range(node.start_point[0], node.end_point[0] + 1))
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def drop_key(text: str, path: Sequence[str]) -> str:
    """The text without the line of a value, and without its table where nothing else is in it."""
    wanted = tuple(path)
    data = text.encode()
    for node in _parsed(data).children:
        if node.type != "table" or _head(node) != wanted[:-1]:
            continue
        pairs = [child for child in node.children if child.type == "pair"]
        for pair in (pair for pair in pairs if keys_of(pair.children[0]) == wanted[-1:]):
            if len(pairs) == 1:
                return drop_tables(text, wanted[0])
            end = data.find(b"\n", pair.end_byte) + 1 or len(data)
            return (data[: pair.start_byte] + data[end:]).decode()
    return text


def _without(data: bytes, element: Node, array: Node) -> bytes:
    """An array without one of its elements and the comma after it, else before it."""
    start, end = element.start_byte, element.end_byte
    tail = re.match(rb"\s*,[ \t]*", data[end : array.end_byte])
    if tail:
        return data[:start] + data[end + tail.end() :]
    head = re.search(rb",\s*$", data[array.start_byte : start])
    return data[: array.start_byte + head.start() if head else start] + data[end:]


def _appended(data: bytes, key: str, added: str) -> bytes:
    """An array with more elements after its last one."""
    array = _value(_parsed(data), (key,))
    assert array is not None
    elements = [child for child in array.children if child.is_named and child.type != "comment"]
    at = elements[-1].end_byte if elements else array.start_byte + 1
    return data[:at] + (added if elements else added.removeprefix(", ")).encode() + data[at:]


def _parsed(data: bytes) -> Node:
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_toml.language())).parse(data).root_node


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


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
