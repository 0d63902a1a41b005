"""Where in a TOML file something stands, and what is wrong there, in words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from torchsmith.edge.problem import Problem, Where, did_you_mean

Step = str | int


def place(text: str, file: str, path: Sequence[Step]) -> Where:
    """Where the value at `path` stands; the nearest enclosing part when it is absent."""
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    tree = Parser(Language(tree_sitter_toml.language())).parse(text.encode())
    spots: dict[tuple[Step, ...], tuple[int, int]] = {}
    counts: dict[tuple[Step, ...], int] = {}
    for node in tree.root_node.children:
        if node.type == "pair":
            _pair(node, (), spots)
        elif node.type in ("table", "table_array_element"):
            _table(node, spots, counts)
    wanted = tuple(path)
    while wanted and wanted not in spots:
        wanted = wanted[:-1]
    row, column = spots.get(wanted, (0, 0))
    return Where(file, row + 1, column + 1)


def _table(
    node: Any, spots: dict[tuple[Step, ...], tuple[int, int]], counts: dict[tuple[Step, ...], int]
) -> None:
    head = next(child for child in node.children if child.type in ("bare_key", "quoted_key", "dotted_key"))
    path: tuple[Step, ...] = ()
    for name in keys_of(head):
        path += (name,)
        if path in counts and path != keys_of(head):
            path += (counts[path] - 1,)
    if node.type == "table_array_element":
        counts[path] = counts.get(path, 0) + 1
        path += (counts[path] - 1,)
    spots.setdefault(path, head.start_point)
    for child in node.children:
        if child.type == "pair":
            _pair(child, path, spots)


def _pair(node: Any, prefix: tuple[Step, ...], spots: dict[tuple[Step, ...], tuple[int, int]]) -> None:
    path = prefix + keys_of(node.children[0])
    spots.setdefault(path, node.start_point)
    _value(value_of(node), path, spots)


def _value(node: Any, path: tuple[Step, ...], spots: dict[tuple[Step, ...], tuple[int, int]]) -> None:
    if node.type == "array":
        elements = [child for child in node.children if child.is_named and child.type != "comment"]
        for index, child in enumerate(elements):
            spots.setdefault((*path, index), child.start_point)
            _value(child, (*path, index), spots)
    elif node.type == "inline_table":
        for child in node.children:
            if child.type == "pair":
                _pair(child, path, spots)


def value_of(pair: Any) -> Any:
    """The value of a pair; a comment on its line belongs to the pair too."""
    return [child for child in pair.children if child.type != "comment"][-1]


def keys_of(node: Any) -> tuple[str, ...]:
    """The names of a key, dotted or not."""
    if node.type == "dotted_key":
        return tuple(name for child in node.children if child.is_named for name in keys_of(child))
    word = node.text.decode(errors="replace")
    return (str(tomllib.loads(f"key = {word}")["key"]) if node.type == "quoted_key" else word,)


def decode_problem(error: tomllib.TOMLDecodeError, text: str, file: str) -> Problem:
    """A syntax error with its place."""
    message = str(error)
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found:
        where = Where(file, int(found[1]), int(found[2]))
        message = message[: found.start()]
    else:
        message = message.removesuffix(" (at end of document)")
        where = Where(file, text.count("\n") + 1)
    return Problem(f"not valid TOML: {message[:1].lower()}{message[1:]}", where=where)


def validation_problem(
    error: Exception, text: str, file: str, kind: type, *, inside: tuple[Step, ...] = ()
) -> Problem:
    """What msgspec refused, in plain words, with its place and the nearest valid key."""
    message, path = _split(str(error))
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    if unknown:
        word = unknown[1]
        known = _fields(kind, path)
        return Problem(
            f"unknown key {word}",
            hint=did_you_mean(word, known),
            where=place(text, file, (*inside, *path, word)),
        )
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    if missing:
        message = f"key {missing[1]} is missing"
    at = ".".join(str(step) for step in path)
    words = message.replace("`", "")
    words = f"{words[:1].lower()}{words[1:]}" + (f" (in {at})" if at else "")
    return Problem(words, where=place(text, file, (*inside, *path)))


def _split(message: str) -> tuple[str, tuple[Step, ...]]:
    """msgspec's message and the path it ends with: `... - at `$.a[0].b``."""
    words, _, tail = message.partition(" - at `")
    steps: list[Step] = []
    for name, index in re.findall(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]", tail):
        if name:
            steps.append(name)
        elif index != "...":
            steps.append(int(index))
    return words, tuple(steps)


def _fields(kind: Any, path: Sequence[Step]) -> list[str]:
    """The keys that a msgspec type knows at a path."""
    for step in path:
        kind = _descend(kind, step)
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return [field.encode_name for field in msgspec.structs.fields(candidate)]
    return []


def _descend(kind: Any, step: Step) -> Any:
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            for field in msgspec.structs.fields(candidate):
                if field.encode_name == step:
                    return field.type
    inner = get_args(kind)
    return inner[-2] if len(inner) > 1 and inner[-1] is Ellipsis else inner[-1] if inner else kind
