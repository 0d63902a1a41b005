"""Nix expressions as text: the one function that turns a value into a Nix string, and its relatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NixValue = str | int | bool | None | Sequence["NixValue"] | Mapping[str, "NixValue"]


def nix_string(text: str) -> str:
    """A Nix string that means exactly `text`, whatever is in it."""
    if "\0" in text:
        raise ValueError("a Nix string cannot hold a null byte")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def nix_value(value: NixValue) -> str:
    """A value as Nix text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})"
    if isinstance(value, str):
        return nix_string(value)
    if isinstance(value, Mapping):
        inner = " ".join(f"{nix_string(key)} = {nix_value(one)};" for key, one in value.items())
        return f"{{ {inner} }}"
    return f"[ {' '.join(nix_value(one) for one in value)} ]"


def nix_path(path: str) -> str:
    """A Nix path, whatever characters it has."""
    return f"(/. + {nix_string(path)})"
