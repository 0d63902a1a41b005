"""Requests: the base class, which checks the types of fields, and how a field is asked for on a command line.

The command line is made from these, and so is the documentation: `Annotated[Path | None, Option("A file.")]`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from torchsmith.core.problem import Usage

Complete = Callable[[], Sequence[str]]  # the values that a word may become


@dataclass(frozen=True, slots=True)
class Param:
    """An option or argument as it was declared."""

    kind: Literal["Option", "Argument"]
    names: tuple[str, ...]
    help: str
    metavar: str = ""
    min: float = 0
    max: float = sys.float_info.max
    envvar: str = ""
    joined: bool = False  # several words are one value: RTX 4090
    complete: Complete | None = None

    @property
    def bounds(self) -> str:
        """The numbers that it takes, in words."""
        most = f", at most {self.max:g}" if self.max < sys.float_info.max else ""
        return f"at least {self.min:g}{most}"

    def check(self, value: object, called: str) -> None:
        """Raise Usage for an empty text, and for a number that is out of range."""
        if isinstance(value, str) and not value.strip():
            raise Usage(f"{called} is empty", hint="give it a value")
        if isinstance(value, int | float) and not self.min <= value <= self.max:
            raise Usage(f"{called}: {value} is out of range", hint=f"it is {self.bounds}")


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
    value of a wrong type is a TypeError. Raises Usage for an empty text or a number that is out of range."""

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, (kind, *declared) in _fields(own).items():
            given = getattr(self, name)
            plain = _plain(given)
            if get_origin(kind) in (tuple, Sequence) and isinstance(plain, str):
                plain = [plain]
            try:
                value = _converted(plain, kind)
            except msgspec.ValidationError:
                takes = kind.__name__ if isinstance(kind, type) else re.sub(r"\w+\.", "", str(kind))
                raise TypeError(f"{own.__name__}.{name} takes {takes}, not {given!r}") from None
            for param in declared if given != getattr(own, name, None) else ():
                for one in plain if isinstance(plain, list) else [plain]:
                    param.check(one, f"{own.__name__}.{name}")
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)


@cache
def _fields(request: Any) -> dict[str, tuple[Any, ...]]:
    """The type of each field, and the option or argument that it is, if it is one."""
    hints = get_type_hints(request, include_extras=True)
    return {
        name: get_args(hint)[:2] if get_origin(hint) is Annotated else (hint,) for name, hint in hints.items()
    }


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
