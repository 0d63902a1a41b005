"""Requests: the base class, which checks the types of fields, and how a field is asked for on a command line.

The command line is made from these, and so is the documentation: `Annotated[Path | None, Option("A file.")]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints

import msgspec

Complete = Callable[[], Sequence[str]]  # the values that a word may become


@dataclass(frozen=True, slots=True)
class Param:
    """An option or argument as it was declared."""

    kind: Literal["Option", "Argument"]
    names: tuple[str, ...]
    help: str
    metavar: str = ""
    min: float | None = None
    max: float | None = None
    envvar: str = ""
    joined: bool = False  # several words are one value: RTX 4090
    complete: Complete | None = None


def Option(*texts: str, **more: Any) -> Any:
    """Names (`--jobs`, `-j`; `--git/--no-git`) and the help; without names it has that of its field."""
    *names, help = texts
    return Param("Option", tuple(names), help, **more)


def Argument(help: str, **more: Any) -> Any:
    """A word without a name, or several."""
    return Param("Argument", (), help, **more)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request. Strings and paths are accepted for each other, and one of them for a sequence; any other
    value of a wrong type is a TypeError."""

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, kind in _kinds(own).items():
            given = getattr(self, name)
            value = _plain(given)
            if get_origin(kind) in (tuple, Sequence) and isinstance(value, str):
                value = [value]
            try:
                value = _converted(value, kind)
            except msgspec.ValidationError:
                takes = kind.__name__ if isinstance(kind, type) else re.sub(r"\w+\.", "", str(kind))
                raise TypeError(f"{own.__name__}.{name} takes {takes}, not {given!r}") from None
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)


@cache
def _kinds(request: Any) -> dict[str, Any]:
    return get_type_hints(request)


def _plain(value: Any) -> Any:
    """A value with strings for paths."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _converted(value: Any, kind: Any) -> Any:
    if is_dataclass(kind) and isinstance(value, kind):  # type: ignore[arg-type]
        return value
    return msgspec.convert(value, kind, dec_hook=_path)


def _path(kind: type, value: object) -> Path:
    """The hook of msgspec; fields have no other type that it does not know."""
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"Expected a path, got `{type(value).__name__}`")
    return Path(value)
