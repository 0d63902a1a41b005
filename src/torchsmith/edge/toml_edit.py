"""Changing one value in a TOML file, and nothing else: comments, order and spelling stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchsmith.edge.problem import Invalid
from torchsmith.edge.toml import TABLES, elements_of, head_of, keys_of, last_of, nodes, pairs_of, parsed

if TYPE_CHECKING:
    from tree_sitter import Node


def set_string(text: str, path: Sequence[str], value: str) -> str:
    """The text with the string at `path` set: replaced, added to its table, or added with its table."""
    data = text.encode()
    root = parsed(data)
    wanted = tuple(path)
    found = _value(root, wanted)
    if found is not None:
        return (data[: found.start_byte] + written(value).encode() + data[found.end_byte :]).decode()
    tables = [node for node in root.children if node.type == "table"]
    table = next((node for node in tables if keys_of(head_of(node)) == wanted[:-1]), None)
    line = f"{plain_key(wanted[-1])} = {written(value)}\n"
    if table is None:
        if _value(root, wanted[:-1]) is not None:
            raise Invalid(
                f"cannot add {wanted[-1]} to an inline table", hint=f"write {line.strip()} there by hand"
            )
        head = f"[{'.'.join(map(plain_key, wanted[:-1]))}]\n" if wanted[:-1] else ""
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{head}{line}"
    return _line_below(data, last_of(table), line)


def _line_below(data: bytes, node: Node, line: str) -> str:
    """The text with a line below the one that a node ends in."""
    end = data.find(b"\n", node.end_byte) + 1 or len(data)
    before = data[:end].decode()
    return before + ("" if before.endswith("\n") else "\n") + line + data[end:].decode()


def set_list(text: str, key: str, values: Sequence[str]) -> str:
    """The text with a list of strings at its top: elements that stay keep their comments and spelling."""
    data = text.encode()
    root = parsed(data)
    found = _value(root, (key,))
    if found is None or found.type != "array":
        line = f"{key} = {written(values)}\n"
        pairs = pairs_of(root)
        return _line_below(data, pairs[-1], line) if pairs else line + (f"\n{text}" if text else "")
    elements = elements_of(found)
    held = [tomllib.loads(f"key = {child.text.decode()}")["key"] for child in elements if child.text]
    for child, value in reversed([*zip(elements, held, strict=True)]):
        if value not in values:
            data = _without(data, child, found)
    added = "".join(f", {written(value)}" for value in values if value not in held)
    return _appended(data, key, added).decode() if added else data.decode()


def drop_tables(text: str, name: str) -> str:
    """The text without a table, the tables below it, and the comments that stand right above them."""
    lines = text.splitlines(keepends=True)
    gone: set[int] = set()
    for node in parsed(text.encode()).children:
        if node.type in TABLES and keys_of(head_of(node))[0] == name:
            first = node.start_point[0]
            while first and lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if first and not lines[first - 1].strip():
                first -= 1
            gone |= set(range(first, last_of(node).end_point[0] + 1))
        elif node.type == "pair" and keys_of(node.children[0])[0] == name:
            gone |= set(range(node.start_point[0], node.end_point[0] + 1))
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def drop_key(text: str, path: Sequence[str]) -> str:
    """The text without the line of a value, and without its table where nothing else is in it."""
    wanted = tuple(path)
    data = text.encode()
    for node in parsed(data).children:
        if node.type != "table" or keys_of(head_of(node)) != wanted[:-1]:
            continue
        pairs = pairs_of(node)
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
    array = _value(parsed(data), (key,))
    assert array is not None
    elements = elements_of(array)
    at = elements[-1].end_byte if elements else array.start_byte + 1
    return data[:at] + (added if elements else added.removeprefix(", ")).encode() + data[at:]


def _value(root: Node, wanted: tuple[str, ...]) -> Node | None:
    """The node of the value at a path, in tables and inline tables."""
    found = (node for path, node in nodes(root, wanted) if path == wanted and node.type == "pair")
    return next(map(last_of, found), None)


def written(value: str | bool | Sequence[str]) -> str:
    """A value of TOML, which spells these as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def plain_key(name: str) -> str:
    """A key, in quotes where TOML wants them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else written(name)
