"""Values as Nix source text: the one place where strings are escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def in_quotes(text: str) -> str:
    """Text for the inside of a "..." string."""
    for found, written in (
        ("\\", "\\\\"),
        ('"', '\\"'),
        ("${", "\\${"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
    ):
        text = text.replace(found, written)
    return text


def in_indented(text: str) -> str:
    """Text for the inside of a ''...'' string."""
    return text.replace("''", "'''").replace("${", "''${")


def in_comment(text: str) -> str:
    """Text for a comment, which ends with its line."""
    return " ".join(text.split())


def string(text: str) -> str:
    """A "..." string."""
    return f'"{in_quotes(text)}"'


Data = str | Sequence["Data"] | Mapping[str, "Data"]


def value(data: Data, indent: str = "") -> str:
    """A string, list or attribute set, an item a line, below a line with this indentation."""
    if isinstance(data, str):
        return string(data)
    inner = indent + "  "
    if isinstance(data, Mapping):
        items = [f"{attribute(name)} = {value(item, inner)};" for name, item in data.items()]
        opening, closing = "{", "}"
    else:
        items = [value(item, inner) for item in data]
        opening, closing = "[", "]"
    if not items:
        return f"{opening} {closing}"
    if isinstance(data, Mapping) and len(items) == 1 and "\n" not in items[0]:
        return f"{opening} {items[0]} {closing}"
    lines = "".join(f"{inner}{item}\n" for item in items)
    return f"{opening}\n{lines}{indent}{closing}"


def attribute(name: str) -> str:
    """An attribute's name, quoted where Nix wants it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_'-]*", name) else string(name)
