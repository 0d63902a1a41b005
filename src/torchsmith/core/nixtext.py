"""Values as Nix source text: the one place where strings are escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from torchsmith.core.problem import Invalid

NixValue = str | int | bool | PurePath | None | Sequence["NixValue"] | Mapping[str, "NixValue"]
ESCAPES = {"\\": "\\\\", '"': '\\"', "${": "\\${", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
KEYWORDS = frozenset({"assert", "else", "if", "in", "inherit", "let", "or", "rec", "then", "with"})


def in_quotes(text: str) -> str:
    """Text for the inside of a "..." string."""
    if "\0" in text:
        raise Invalid("a Nix string cannot hold a null byte")
    for plain, written in ESCAPES.items():
        text = text.replace(plain, written)
    return text


def in_indented(text: str) -> str:
    """Text for the inside of a ''...'' string."""
    return text.replace("''", "'''").replace("${", "''${")


def in_comment(text: str) -> str:
    """Text for a comment, which ends with its line."""
    return " ".join(text.split())


def nix_string(text: str) -> str:
    """A Nix string that evaluates to exactly `text`."""
    return f'"{in_quotes(text)}"'


def nix_value(value: NixValue, indent: str | None = None) -> str:
    """A value as Nix text: on one line, or an item a line below a line with this indentation."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})"
    if isinstance(value, str):
        return nix_string(value)
    if isinstance(value, PurePath):
        return f"(/. + {nix_string(str(value))})"  # whatever characters it has
    inner = None if indent is None else indent + "  "
    if isinstance(value, Mapping):
        items = [f"{attribute(name)} = {nix_value(item, inner)};" for name, item in value.items()]
        opening, closing = "{", "}"
    else:
        items = [nix_value(item, inner) for item in value]
        opening, closing = "[", "]"
    if not items:
        return f"{opening} {closing}"
    if inner is None or (isinstance(value, Mapping) and len(items) == 1 and "\n" not in items[0]):
        return f"{opening} {' '.join(items)} {closing}"
    lines = "".join(f"{inner}{item}\n" for item in items)
    return f"{opening}\n{lines}{indent}{closing}"


def attribute(name: str) -> str:
    """An attribute's name, quoted if Nix requires it."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_'-]*", name) and name not in KEYWORDS
    return name if plain else nix_string(name)
