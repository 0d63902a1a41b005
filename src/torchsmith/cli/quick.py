"""The short way to a verb: plain command lines are read here, in less time than typer takes to load.

Whatever is not plain (help, completion, a mistake, a number with limits) is left to typer, which says more.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from torchsmith.cli.panels import VERBS
from torchsmith.cli.params import Param, params_of

PlainCall = tuple[Callable[..., None], dict[str, Any]]


def quick_call(words: list[str]) -> PlainCall | None:
    """The verb's function and what to call it with; None: ask typer."""
    if not words or words[0] not in VERBS or "_TORCHSMITH_COMPLETE" in os.environ:
        return None
    module = importlib.import_module(f"torchsmith.cli.verbs.{words[0].replace('-', '_')}")
    if hasattr(module, "app"):
        return None
    given = read_words(module.run, words[1:])
    return None if given is None else (module.run, given)


def read_words(run: Callable[..., None], words: list[str]) -> dict[str, Any] | None:
    """What plain words say; None where typer must judge."""
    verb = _Verb(run)
    if not verb.plain:
        return None
    given: dict[str, Any] = {}
    loose: list[str] = []
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if not word.startswith("-"):
            loose.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in verb.options:
            return None
        parameter, kind, many, fixed = verb.options[name]
        if fixed is not None:
            if equals:
                return None
            given[parameter] = fixed
            continue
        if not equals:
            if not waiting or waiting[-1].startswith("-"):
                return None
            value = waiting.pop()
        if kind not in (str, Path):
            return None
        given[parameter] = [*given.get(parameter, []), kind(value)] if many else kind(value)
    return verb.place(given, loose)


class _Verb:
    """The options of a verb by name, and its arguments in order."""

    def __init__(self, run: Callable[..., None]) -> None:
        self.plain = True
        self.options: dict[str, tuple[str, Any, bool, bool | None]] = {}
        self.arguments: list[tuple[str, Any, bool, bool]] = []
        for name, (parameter, hint, param) in params_of(run).items():
            kind, many = _kind(hint)
            if not isinstance(param, Param) or os.environ.get(param.more.get("envvar", "")):
                self.plain = False
            elif param.kind == "Argument":
                self.arguments.append((name, kind, many, parameter.default is parameter.empty))
            else:
                for names in param.names:
                    yes, slash, no = names.partition("/")
                    self.options[yes] = (name, kind, many, True if kind is bool else None)
                    if slash:
                        self.options[no] = (name, kind, many, False)

    def place(self, given: dict[str, Any], loose: list[str]) -> dict[str, Any] | None:
        """Loose words go to the arguments in their order."""
        for name, kind, many, required in self.arguments:
            if kind not in (str, Path) or (required and not loose):
                return None
            if loose:
                taken, loose = (loose, []) if many else (loose[:1], loose[1:])
                given[name] = [kind(word) for word in taken] if many else kind(taken[0])
        return None if loose else given


def _kind(hint: Any) -> tuple[Any, bool]:
    """`list[Path] | None` is many paths."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is list:
        return get_args(hint)[0], True
    return hint, False
