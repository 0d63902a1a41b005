"""Where in a TOML file something stands, and what is wrong there, in words."""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec

from torchsmith.edge.problem import Invalid, NotKnown, Problem, TooLarge, Where, did_you_mean

if TYPE_CHECKING:
    import tomllib

Step = str | int
DEEPEST = 50  # parts of a key, and brackets
LONGEST_LIST = 10_000  # a thousand times what anybody ships, and still read in seconds


def read_table(text: str, file: str) -> dict[str, Any]:
    """A TOML text as data, or a Problem with the place of what is wrong."""
    import tomllib  # only where a file is not kept parsed

    if text.startswith("\ufeff"):
        hint = "save the file as UTF-8 without a signature (BOM)"
        raise Invalid("the file begins with a byte order mark", hint=hint, where=Where(file, 1, 1))
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise decode_problem(error, text, file) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(file)) from None
    for path, value in _leaves(table):
        if len(path) > DEEPEST:
            start = ".".join(map(str, path[:3]))
            raise TooLarge(f"{start}... is nested more than {DEEPEST} deep", where=_deep(text, file, path))
        if isinstance(value, list) and len(value) > LONGEST_LIST:
            words = f"a list of {len(value):,} entries is too long (at most {LONGEST_LIST:,})"
            raise TooLarge(words, where=place(text, file, path))
    return table


def read_kept(path: Path) -> dict[str, Any]:
    """The table of a file that is part of the program, kept parsed beside it as Python keeps bytecode."""
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    kept = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.toml"
    try:
        known, table = marshal.loads(kept.read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        known, table = None, None
    if known == stamp and isinstance(table, dict):
        return table
    table = read_table(path.read_text(encoding="utf-8"), str(path))
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError, ValueError):
            kept.parent.mkdir(exist_ok=True)
            draft = kept.with_suffix(f".{os.getpid()}")
            draft.write_bytes(marshal.dumps((stamp, table)))
            draft.replace(kept)
    return table


def _leaves(table: dict[str, Any]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Every value at its path, without recursion: a key may have thousands of parts."""
    waiting: list[tuple[tuple[Step, ...], Any]] = [((), table)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list) and len(value) <= LONGEST_LIST:
            waiting += [((*path, at), inner) for at, inner in enumerate(value)]


def _deep(text: str, file: str, path: Sequence[Step]) -> Where:
    """The line of a key of very many parts; the parser would take minutes to name each of them."""
    for row, line in enumerate(text.splitlines(), 1):
        if line.count(".") >= DEEPEST and line.lstrip(" \t[").startswith(str(path[0])):
            return Where(file, row, 1)
    return place(text, file, path[:1])


def place(text: str, file: str, path: Sequence[Step]) -> Where:
    """Where the value at `path` stands; the nearest enclosing part when it is absent."""
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    tree = Parser(Language(tree_sitter_toml.language())).parse(text.encode())
    wanted = tuple(path)
    spots = _Spots(wanted)
    counts: dict[tuple[Step, ...], int] = {}
    for node in tree.root_node.children:
        if node.type == "pair":
            _pair(node, (), spots)
        elif node.type in ("table", "table_array_element"):
            _table(node, spots, counts)
    while wanted and wanted not in spots:
        wanted = wanted[:-1]
    row, column = spots.get(wanted, (0, 0))
    return Where(file, row + 1, column + 1)


class _Spots(dict[tuple[Step, ...], tuple[int, int]]):
    """Where values start, as far as the way to the wanted one: a list may have very many."""

    def __init__(self, wanted: tuple[Step, ...]) -> None:
        super().__init__()
        self.wanted = wanted

    def leads(self, path: tuple[Step, ...]) -> bool:
        return len(path) < len(self.wanted) and self.wanted[: len(path)] == path


def _table(node: Any, spots: _Spots, counts: dict[tuple[Step, ...], int]) -> None:
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


def _pair(node: Any, prefix: tuple[Step, ...], spots: _Spots) -> None:
    path = prefix + keys_of(node.children[0])
    spots.setdefault(path, node.start_point)
    _value(value_of(node), path, spots)


def _value(node: Any, path: tuple[Step, ...], spots: _Spots) -> None:
    if not spots.leads(path):
        return
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
    names: list[str] = []
    while node.type == "dotted_key":  # the parser nests them to the left
        node, *rest = (child for child in node.children if child.is_named)
        names[:0] = (_name(child) for child in rest)
    return (_name(node), *names)


def _name(node: Any) -> str:
    import tomllib

    word = node.text.decode(errors="replace")
    return str(tomllib.loads(f"key = {word}")["key"]) if node.type == "quoted_key" else word


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
    if twice := re.fullmatch(r"Cannot (?:declare|overwrite) \((.+?),?\) twice", message):
        name = ".".join(part.strip("' ") for part in twice[1].split(","))
        return Invalid(f"not valid TOML: [{name}] is there twice", hint="keep one of them", where=where)
    return Invalid(f"not valid TOML: {message[:1].lower()}{message[1:]}", where=where)


def validation_problem(
    error: Exception, text: str, file: str, kind: type, *, inside: tuple[Step, ...] = ()
) -> Problem:
    """What msgspec refused, in plain words, with its place and the nearest valid key."""
    message, path = _split(str(error))
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    if unknown:
        word = unknown[1]
        known = _fields(kind, path)
        return NotKnown(
            f"unknown key {word}",
            hint=did_you_mean(word, known),
            where=place(text, file, (*inside, *path, word)),
        )
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    if missing:
        message = f"key {missing[1]} is missing"
    choices = _choices(kind, path) if message.startswith("Invalid enum value") else []
    hint = f"known: {', '.join(choices)}" if choices else ""
    at = ".".join(str(step) for step in path)
    words = message.replace("`", "")
    words = f"{words[:1].lower()}{words[1:]}" + (f" (in {at})" if at else "")
    return Invalid(words, hint=hint, where=place(text, file, (*inside, *path)))


def _choices(kind: Any, path: Sequence[Step]) -> list[str]:
    """The words that a value at a path may be."""
    for step in path:
        kind = _descend(kind, step)
    kinds = [kind, *get_args(kind)]
    return [str(word) for one in kinds if get_origin(one) is Literal for word in get_args(one)]


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
