"""The base class of requests: it checks the types of their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request. A string is accepted for a path, and one value for a sequence; any other value of a wrong
    type is a TypeError."""

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, kind in _kinds(own).items():
            given = getattr(self, name)
            value = _converted(given, kind)
            if not _fits(value, kind):
                called = f"{type(self).__name__}({name}={given!r})"
                raise TypeError(f"{called}: {name} must be {_words(kind)}, not {type(given).__name__}")
            if value is not given:
                object.__setattr__(self, name, value)


@cache
def _kinds(request: Any) -> dict[str, Any]:
    return get_type_hints(request)


def _converted(value: object, kind: Any) -> object:
    if get_origin(kind) in (Union, UnionType):
        return next((made for part in get_args(kind) if _fits(made := _converted(value, part), part)), value)
    if get_origin(kind) in (tuple, Sequence):
        values = (value,) if isinstance(value, str | Path) else value
        part = get_args(kind)[0]
        return tuple(_converted(one, part) for one in values) if isinstance(values, tuple | list) else value
    return Path(value) if kind is Path and isinstance(value, str) else value


def _fits(value: object, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin in (tuple, Sequence):
        part = get_args(kind)[0]
        return isinstance(value, tuple) and all(_fits(one, part) for one in value)
    if origin is Callable:
        return callable(value)
    if origin in (int, float):
        return isinstance(value, int | origin) and not isinstance(value, bool)
    return isinstance(value, origin)


def _words(kind: Any) -> str:
    """A type as a person writes it."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_words(part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) in (tuple, Sequence):
        return f"a sequence of {_words(get_args(kind)[0])}"
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))
