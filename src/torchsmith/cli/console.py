"""Printing: data and answers to stdout, words about them to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO, TypeVar

from torchsmith.cli.paint import paint, tell
from torchsmith.edge.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


T = TypeVar("T")
WIDE = 1000
ANSWERED = ContextVar("ANSWERED", default=False)  # whether this command has printed its document


def _width(stream: TextIO) -> int | None:
    """The terminal's own; where nobody watches, so wide that nothing is broken or cut."""
    watched = stream.isatty() or os.environ.get("COLUMNS") or os.environ.get("FORCE_COLOR")
    return None if watched else WIDE


def out() -> Console:
    """The console for answers."""
    from rich.console import Console

    return Console(highlight=False, width=_width(sys.stdout))


def err() -> Console:
    """The console for words to the person who watches."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, width=_width(sys.stderr))


def print_json(document: object, kind: type | None = None, *, format: int | None = 1) -> None:
    """A document as JSON on stdout, with the number of its format; docs/json.md describes each. Of a report
    that says more than its document, `kind` is what to tell."""
    import msgspec

    if kind is not None:
        document = msgspec.convert(document, kind, from_attributes=True, dec_hook=lambda _, value: value)
    if format is not None:
        document = {"format": format, **msgspec.to_builtins(document, enc_hook=str)}
    text = msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
    ANSWERED.set(True)


def plain_table(*columns: str, right: Container[str] = (), wrapped: Container[str] = ()) -> Table:
    """A table without lines; what is in `right` are numbers, and only what is in `wrapped` may be broken."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name not in wrapped)
    return table


def answer(document: T, for_people: Callable[[T], None], *, as_json: bool) -> None:
    """An answer as data where a program asks for it, else in words."""
    if as_json:
        print_json(document)
    else:
        for_people(document)


def print_problem(problem: Problem) -> None:
    """What is wrong, where, and what to do."""
    place = paint(f"{problem.where}: ", "bold", sys.stderr) if problem.where else ""
    tell(place + paint("error: ", "bold red", sys.stderr) + problem.message)
    if problem.hint:
        tell(paint("  hint: ", "cyan", sys.stderr) + problem.hint)


def print_problem_json(problem: Problem) -> None:
    """The same as a document, where none was printed: two in a row are no JSON."""
    if ANSWERED.get():
        return
    where = str(problem.where) if problem.where else None
    words = {"message": problem.message, "hint": problem.hint, "where": where}
    print_json({"error": {"code": problem.code(), **words, "exit": int(problem.exit)}})


def say_recovered(words: str) -> None:
    """What a stopped run had left, and what became of it."""
    if words:
        tell(words, "yellow")
