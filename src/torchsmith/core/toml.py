"""TOML files as data, the place of each value in them, and messages about what is wrong there."""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import takewhile
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from torchsmith.core.problem import Invalid, NotKnown, Problem, TooLarge, Where, did_you_mean
from torchsmith.core.text import printable

if TYPE_CHECKING:
    import tomllib

Step = str | int
Decode = Callable[[type, object], object]
TABLES = ("table", "table_array_element")
MAX_DEPTH = 50  # of keys and brackets
MAX_DOTS = 2000  # in a line
TOML_TYPES = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
}
UNCLOSED = re.compile(
    r"(Illegal|Found invalid) character '\\n'|Unterminated string|Expected \"'\""
)  # tomllib's
MAX_SHOWN = 80  # characters of a line with a mistake
MAX_LIST = 10_000  # a thousand times more than needed, and still read in seconds


def read_table(text: str, file: str) -> dict[str, Any]:
    """A TOML text as data, or a Problem with the place of what is wrong."""
    import tomllib  # only if a file is not cached

    if text.startswith("\ufeff"):
        hint = "save the file as UTF-8 without a signature (BOM)"
        raise Invalid("the file begins with a byte order mark", hint=hint, where=Where(file, 1, 1))
    for row, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MAX_DOTS:  # the parser would take minutes for such a key
            raise TooLarge("a line has too many dots", where=Where(file, row, 1))
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise decode_problem(error, text, file) from error
    except ValueError as error:  # an integer of thousands of digits
        raise TooLarge(f"a number is too long: {error}", where=Where(file)) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(file)) from None
    for path, value in _leaves(table):
        if len(path) > MAX_DEPTH:
            message = f"{'.'.join(map(str, path[:3]))}... is nested more than {MAX_DEPTH} deep"
            raise TooLarge(message, where=place(text, file, path[:1]))
        if isinstance(value, list) and len(value) > MAX_LIST:
            message = f"a list of {len(value):,} entries is too long (at most {MAX_LIST:,})"
            raise TooLarge(message, where=place(text, file, path))
    return table


def read_cached(path: Path) -> dict[str, Any]:
    """The table of a file that is part of the program, cached beside it as Python caches bytecode."""
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    cached = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.toml"
    try:
        known, table = marshal.loads(cached.read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        known, table = None, None
    if known == stamp and isinstance(table, dict):
        return table
    table = read_table(path.read_text(encoding="utf-8"), str(path))
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError, ValueError):
            cached.parent.mkdir(exist_ok=True)
            draft = cached.with_suffix(f".{os.getpid()}")
            draft.write_bytes(marshal.dumps((stamp, table)))
            draft.replace(cached)
    return table


def _leaves(table: dict[str, Any]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Every value at its path, without recursion: a key may have thousands of parts."""
    waiting: list[tuple[tuple[Step, ...], Any]] = [((), table)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, at), inner) for at, inner in enumerate(value)]


def place(text: str, file: str, path: Sequence[Step]) -> Where:
    """Where the value at `path` is; if it is absent, the nearest part that encloses it or begins so."""
    wanted = tuple(path)
    best, (row, column) = (0, False), (0, 0)
    for node_path, node in nodes(parsed(text.encode()), wanted):
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(node_path, wanted, strict=False))
        shared = sum(1 for _ in equal)
        rank = (shared, node_path == wanted[:shared])
        if rank > best:
            best, (row, column) = rank, node.start_point
    return Where(file, row + 1, column + 1)


def parsed(data: bytes) -> Any:
    """The top of a TOML text's syntax tree."""
    import tree_sitter_toml
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_toml.language())).parse(data).root_node


def nodes(root: Any, wanted: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Heads of tables, pairs, and elements on the way to the wanted path: a list may have very many."""
    counts: dict[tuple[Step, ...], int] = {}
    for node in root.children:
        if node.type == "pair":
            yield from _pair(node, (), wanted)
        elif node.type in TABLES:
            head = head_of(node)
            path: tuple[Step, ...] = ()
            for name in keys_of(head):
                path += (name,)
                if path in counts and path != keys_of(head):
                    path += (counts[path] - 1,)
            if node.type == "table_array_element":
                counts[path] = counts.get(path, 0) + 1
                path += (counts[path] - 1,)
            yield path, head
            for pair in pairs_of(node):
                yield from _pair(pair, path, wanted)


def _pair(
    node: Any, prefix: tuple[Step, ...], wanted: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], Any]]:
    path = prefix + keys_of(node.children[0])
    yield path, node
    yield from _below(last_of(node), path, wanted)


def _below(
    node: Any, path: tuple[Step, ...], wanted: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if path == wanted or wanted[: len(path)] != path:
        return
    if node.type == "array":
        for index, child in enumerate(elements_of(node)):
            yield (*path, index), child
            yield from _below(child, (*path, index), wanted)
    elif node.type == "inline_table":
        for pair in pairs_of(node):
            yield from _pair(pair, path, wanted)


def pairs_of(node: Any) -> list[Any]:
    """The pairs of a table."""
    return [child for child in node.children if child.type == "pair"]


def elements_of(array: Any) -> list[Any]:
    """The elements of an array."""
    return [child for child in array.children if child.is_named and child.type != "comment"]


def head_of(table: Any) -> Any:
    """The key in a table's brackets."""
    return next(child for child in table.children if child.type in ("bare_key", "quoted_key", "dotted_key"))


def last_of(node: Any) -> Any:
    """The value of a pair, the last pair of a table; a comment after it belongs to the node too."""
    return [child for child in node.children if child.type != "comment"][-1]


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
    if match := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        where = Where(file, int(match[1]), int(match[2]))
        message = message[: match.start()]
    else:
        message = message.removesuffix(" (at end of document)")
        where = Where(file, text.count("\n") + 1)
    if UNCLOSED.fullmatch(message):
        message = "unclosed string"
    if twice := re.fullmatch(r"Cannot (?:declare|overwrite) \((.+?),?\) twice", message):
        name = ".".join(part.strip("' ") for part in twice[1].split(","))
        return Invalid(f"not valid TOML: [{name}] is defined twice", hint="keep one of them", where=where)
    lines = text.split("\n")[where.line - 1 : where.line]
    shown = printable("".join(lines).strip()[:MAX_SHOWN])
    hints = [f"the line is: {shown}"] * bool(shown)
    hints += ["a value is missing, or a text is not in quotes"] * (message == "Invalid value")
    hint = "; ".join(hints)
    return Invalid(f"not valid TOML: {message[:1].lower()}{message[1:]}", hint=hint, where=where)


def validation_problem(
    value: Any, kind: Any, text: str, file: str, *, decode: Decode, inside: tuple[Step, ...] = ()
) -> Problem:
    """What a type refuses in a value of a file, with its place and the nearest valid key; `inside` is the
    path of the value itself."""
    found = _refused(value, kind, decode)
    assert found is not None
    full, refused, expected, message = found
    path = tuple(_own(reduce(_at, inside, read_table(text, file)), full))
    structs = _structs(expected) if isinstance(refused, dict) else []
    fields = {field.encode_name: field for one in structs for field in msgspec.structs.fields(one)}
    for word in refused if fields else ():
        if word not in fields:
            removed = "".join(getattr(one, "REMOVED", {}).get(word, "") for one in structs)
            where = place(text, file, (*inside, *path, word))
            return NotKnown(f"unknown key {word}", hint=removed or did_you_mean(word, fields), where=where)
    missing = [field for name, field in fields.items() if field.required and name not in refused]
    if missing:
        message, expected = f"key {missing[0].encode_name} is missing", missing[0].type
    literals = [one for one in _options(expected) if get_origin(one) is Literal]
    choices = [str(word) for one in literals for word in get_args(one)]
    hint = f"known: {', '.join(choices)}" if choices and (missing or isinstance(refused, str | int)) else ""
    if choices and not missing:
        message = f"unknown value {refused!r}"
    lists = [one for one in _options(expected) if get_origin(one) is tuple]
    at = ".".join(str(step) for step in path)
    if lists and not missing and not isinstance(refused, list):
        tables = any(map(_structs, get_args(lists[0])))
        hint = f"[[{at}]] begins one of several" if tables else ""
        hint = hint or f"write {at.rpartition('.')[2]} = {json.dumps([refused])}" * isinstance(refused, str)
    if isinstance(refused, str) and (words := _words(expected)):
        message = f"expected {words}"
    plain = re.sub(r"`(\w+)`", lambda word: TOML_TYPES.get(word[1], word[1]), message).replace("`", "")
    plain = f"{plain[:1].lower()}{plain[1:]}" + (f" (in {at})" if at else "")
    return Invalid(plain, hint=hint, where=place(text, file, (*inside, *path)))


def _refused(value: Any, kind: Any, decode: Decode) -> tuple[tuple[Step, ...], Any, Any, str] | None:
    """The innermost value that its type refuses: its path, the value, the type and msgspec's message."""
    try:
        msgspec.convert(value, kind, dec_hook=decode)
    except (msgspec.ValidationError, ValueError) as error:
        parts = value.items() if isinstance(value, dict) else ()
        for step, inner in enumerate(value) if isinstance(value, list) else parts:
            if found := _refused(inner, _inner_type(kind, step), decode):
                return (step, *found[0]), *found[1:]
        return (), value, kind, str(error).replace(" | null", "").partition(" - at `")[0]
    return None


def _own(table: Any, path: Iterable[Step]) -> Iterator[Step]:
    """The steps of a path that are in a table itself, and not in a layer below it."""
    for step in path:
        if (inner := _at(table, step)) is not None:
            table = inner
            yield step


def _at(value: Any, step: Step) -> Any:
    """What a table or a list has at a key or an index."""
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def _options(kind: Any) -> tuple[Any, ...]:
    """The types of a union, or the type alone."""
    if get_origin(kind) is Annotated:
        kind = kind.__origin__
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _structs(kind: Any) -> list[type[msgspec.Struct]]:
    """The types with keys that a value may be of."""
    options = [option for option in _options(kind) if isinstance(option, type)]
    return [option for option in options if issubclass(option, msgspec.Struct)]


def _words(kind: Any) -> str:
    """What a text of a type with a form looks like."""
    return "".join((meta.extra or {}).get("words", "") for meta in getattr(kind, "__metadata__", ()))


def _inner_type(kind: Any, step: Step) -> Any:
    """The type of what a table or list has at a key or an index; Any if it has none."""
    for field in (field for struct in _structs(kind) for field in msgspec.structs.fields(struct)):
        if field.encode_name == step:
            return field.type
    of_list = isinstance(step, int)
    options = [option for option in _options(kind) if (get_origin(option) is tuple) is of_list]
    inner = [one for option in options for one in get_args(option) if one is not Ellipsis]
    return inner[-1] if inner else Any
