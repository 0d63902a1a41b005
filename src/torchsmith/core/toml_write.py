"""Tables as TOML: the one place that writes it. Changing a file that people wrote is toml_edit's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_WIDTH = 110  # columns; a longer list has a line for each of its values


class Inline(dict[str, Any]):
    """A table in one line: { owner = "pytorch", repo = "audio" }."""


def table_text(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A table with the tables below it, plain values first; an empty line ends each."""
    plain = {name: value for name, value in table.items() if not _has_lines(value)}
    head = f"[{'.'.join(map(key_text, path))}]\n" if path and plain else ""
    text = head + "".join(_pair(name, value) for name, value in plain.items())
    parts = [text] if plain else []
    for name, value in table.items():
        inner = (*path, name)
        if isinstance(value, Mapping) and _has_lines(value):
            parts.append(table_text(value, inner).rstrip("\n") + "\n")
        elif _has_lines(value):
            title = f"[[{'.'.join(map(key_text, inner))}]]\n"
            parts += [title + "".join(_pair(*pair) for pair in entry.items()) for entry in value]
    return "\n".join(part for part in parts if part.strip())


def _has_lines(value: Any) -> bool:
    """Whether a value is a table, or a list of tables, with lines of its own."""
    if isinstance(value, list | tuple):
        return bool(value) and all(_has_lines(item) for item in value)
    return isinstance(value, Mapping) and not isinstance(value, Inline)


def _pair(name: str, value: Any) -> str:
    line = f"{key_text(name)} = {value_text(value)}\n"
    if len(line) <= MAX_WIDTH or not isinstance(value, list | tuple):
        return line
    return f"{key_text(name)} = [\n" + "".join(f"  {value_text(item)},\n" for item in value) + "]\n"


def value_text(value: str | bool | float | Sequence[Any] | Mapping[str, Any]) -> str:
    """A value; TOML spells text, numbers and true as JSON does."""
    if isinstance(value, Mapping):
        pairs = (f"{key_text(key)} = {value_text(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON permits


def key_text(name: str) -> str:
    """A key, in quotes where TOML wants them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else value_text(name)
