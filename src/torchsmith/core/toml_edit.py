"""Changing one value in a TOML file, and nothing else: comments, order and spelling stay."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchsmith.core.problem import Invalid
from torchsmith.core.toml import TABLES, elements_of, head_of, keys_of, last_of, nodes, pairs_of, parsed
from torchsmith.core.toml_write import key_text, value_text

if TYPE_CHECKING:
    from tree_sitter import Node


def set_string(text: str, path: Sequence[str], value: str) -> str:
    """The text with the string at `path` set: replaced, added to its table, or added with its table."""
    data = text.encode()
    root = parsed(data)
    wanted = tuple(path)
    old = _value(root, wanted)
    if old is not None:
        return (data[: old.start_byte] + value_text(value).encode() + data[old.end_byte :]).decode()
    line = f"{key_text(wanted[-1])} = {value_text(value)}\n"
    for prefix, node in _tables(root):
        if prefix == wanted[:-1]:
            return _line_in(text, node, line)
        for pair in pairs_of(node):  # a.b = 1 makes a table too, and [a] may not follow it
            own = keys_of(pair.children[0])[:-1]
            if own and prefix + own == wanted[:-1]:
                return _line_below(data, pair, f"{'.'.join(map(key_text, own))}.{line}")
    if _value(root, wanted[:-1]) is not None:
        table = ".".join(map(key_text, wanted[:-1]))
        raise Invalid(
            f"cannot add {wanted[-1]} to {table}: it is not a table with lines of its own",
            hint=f"write it as [{table}], and {line.strip()} below",
            path=wanted[:-1],
        )
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{'.'.join(map(key_text, wanted[:-1]))}]\n{line}"


def _tables(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Tables by their heads; what stands before all of them is one too."""
    yield (), root
    yield from ((keys_of(head_of(node)), node) for node in root.children if node.type == "table")


def _line_in(text: str, table: Node, line: str) -> str:
    """The text with a line at the end of a table."""
    if table.type == "table":
        return _line_below(text.encode(), last_of(table), line)
    pairs = pairs_of(table)
    return _line_below(text.encode(), pairs[-1], line) if pairs else line + (f"\n{text}" if text else "")


def _line_below(data: bytes, node: Node, line: str) -> str:
    """The text with a line below the one that a node ends in."""
    end = data.find(b"\n", node.end_byte) + 1 or len(data)
    before = data[:end].decode()
    return before + ("" if before.endswith("\n") else "\n") + line + data[end:].decode()


def set_list(text: str, key: str, values: Sequence[str]) -> str:
    """The text with a list of strings at its top: elements that stay keep their comments and spelling."""
    data = text.encode()
    root = parsed(data)
    node = _value(root, (key,))
    if node is None or node.type != "array":
        return _line_in(text, root, f"{key} = {value_text(values)}\n")
    present = [_string(child) for child in elements_of(node)]
    for value in present:
        if value not in values:
            data = _without(data, key, value)
    added = "".join(f", {value_text(value)}" for value in values if value not in present)
    return _appended(data, key, added).decode() if added else data.decode()


def _string(element: Node) -> str:
    return str(tomllib.loads(f"key = {(element.text or b'').decode()}")["key"])


def drop_tables(text: str, name: str) -> str:
    """The text without a table, the tables below it, and the comments that stand right above them."""
    nodes = parsed(text.encode()).children
    heads = {"pair": lambda node: node.children[0]} | dict.fromkeys(TABLES, head_of)
    return _cut(
        text, [node for node in nodes if node.type in heads and keys_of(heads[node.type](node))[0] == name]
    )


def _cut(text: str, gone: Sequence[Node]) -> str:
    """The text without the lines of some nodes, and without the comments right above a table."""
    lines = re.split(r"(?<=\n)", text)
    numbers: set[int] = set()
    for node in gone:
        first = node.start_point[0]
        while first and node.type in TABLES and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        if first and node.type in TABLES and not lines[first - 1].strip():
            first -= 1
        numbers |= set(range(first, last_of(node).end_point[0] + 1))
    return "".join(line for number, line in enumerate(lines) if number not in numbers)


def drop_key(text: str, path: Sequence[str]) -> str:
    """The text without the line of a value, and without its table where nothing else is in it."""
    wanted = tuple(path)
    for prefix, node in _tables(parsed(text.encode())):
        pairs = pairs_of(node)
        for pair in (pair for pair in pairs if prefix + keys_of(pair.children[0]) == wanted):
            return _cut(text, [node if prefix and len(pairs) == 1 else pair])
    return text


OWN_LINE = re.compile(rb"[ \t]*(,?)[ \t]*(?:#[^\n]*)?\r?\n")  # after an element


def _without(data: bytes, key: str, value: str) -> bytes:
    """An array without one of its elements and the comma after it, else before it."""
    array = _value(parsed(data), (key,))
    assert array is not None
    element = next(child for child in elements_of(array) if _string(child) == value)
    around = [child for child in array.children if child.type != "comment"]
    at = around.index(element)
    before, after = around[at - 1], around[at + 1]
    start = data.rfind(b"\n", 0, element.start_byte) + 1
    rest = OWN_LINE.match(data, element.end_byte)
    if rest and not data[start : element.start_byte].strip() and (rest[1] or after.type != ","):
        return data[:start] + data[rest.end() :]  # with the comment on its line
    if after.type == ",":
        return data[: element.start_byte] + data[after.end_byte :].lstrip(b" \t")
    return data[: (before if before.type == "," else element).start_byte] + data[element.end_byte :]


def _appended(data: bytes, key: str, added: str) -> bytes:
    """An array with more elements after its last one."""
    array = _value(parsed(data), (key,))
    assert array is not None
    elements = elements_of(array)
    at = elements[-1].end_byte if elements else array.start_byte + 1
    return data[:at] + (added if elements else added.removeprefix(", ")).encode() + data[at:]


def _value(root: Node, wanted: tuple[str, ...]) -> Node | None:
    """The node of the value at a path, in tables and inline tables."""
    matches = (node for path, node in nodes(root, wanted) if path == wanted and node.type == "pair")
    return next(map(last_of, matches), None)
