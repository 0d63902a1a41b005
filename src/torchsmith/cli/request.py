"""The base class of requests: it checks the types of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import msgspec


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
            except msgspec.ValidationError as error:
                raise TypeError(f"{own.__name__}({name}={given!r}): {error}") from None
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
