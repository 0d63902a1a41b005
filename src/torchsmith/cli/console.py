"""Printing: answers to stdout, words about them to stderr; in colour and columns, without loading anything
for a short answer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from torchsmith.core.problem import Exit, Problem
from torchsmith.core.words import printable, shell_word, some_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

T = TypeVar("T")
WIDE = 1000
ANSWERED = ContextVar("ANSWERED", default=False)  # whether this command has printed its document
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
PAINTED = re.compile(rf"(\x1b\[(?:{'|'.join(CODES.values())}|0|;)+m)")
NARROW = 80
LABEL = 12


def _colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, where the stream shows styles."""
    if not style or not text or not _colours(stream or sys.stdout):
        return text
    codes = ";".join(CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def write(
    text: str = "", style: str = "", stream: TextIO | None = None, *, hang: int = 2, whole: bool = False
) -> None:
    """A line of an answer, nothing in it markup; a narrower terminal breaks it between words, and what goes
    on stands `hang` columns further in. A command to copy stays whole."""
    stream = stream or sys.stdout
    room = None if whole else width(stream)
    for line in text.split("\n"):
        for part in wrapped(line, room, hang):
            _put(paint(part, style, stream), stream)


def _put(line: str, stream: TextIO) -> None:
    """A line with no control character but a tab and colours of ours."""
    parts = PAINTED.split(line) if _colours(stream) else [line]
    line = "".join(part if at % 2 else printable(part, "\t") for at, part in enumerate(parts))
    try:
        stream.write(line + "\n")
    except UnicodeEncodeError:
        known = stream.encoding or "ascii"
        stream.write(line.encode(known, "replace").decode(known) + "\n")


def tell(text: str, style: str = "", *, hang: int = 2, whole: bool = False) -> None:
    """One line for the person who watches."""
    write(text, style, sys.stderr, hang=hang, whole=whole)


def warn(text: str) -> None:
    """The same, where it should be seen."""
    tell(text, "yellow")


Printer = Callable[..., None]  # write or tell


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal; None where nobody watches, and nothing needs to be broken."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or NARROW
    except (OSError, ValueError):
        return None


def wrapped(text: str, columns: int | None, hang: int = 0) -> list[str]:
    """Lines of at most so many columns, broken between words; a longer word stays whole, and a label that
    begins the text stays with what it labels."""
    if columns is None or _seen(text) <= columns:
        return [text]
    start = len(text) - len(text.lstrip(" "))
    lines: list[str] = []
    line, room = " " * start, columns - start
    for word in text[start:].split(" "):
        fresh = not line.strip(" ")
        label = not lines and " " not in line.strip(" ") and _seen(line) - start < LABEL
        needed = _seen(word) + (not fresh)
        if needed > room and not (fresh or label):
            lines.append(line.rstrip(" "))
            line, room, fresh = " " * (start + hang), columns - start - hang, True
            needed = _seen(word)
        if word or not fresh:
            line += word if fresh else f" {word}"
            room -= needed
    return [*lines, line]


def _seen(text: str) -> int:
    """How many columns a text takes: colours take none."""
    first, *coloured = text.split("\x1b[")
    return len(first) + sum(len(part.partition("m")[2]) for part in coloured)


def quote(text: str, bar: str, line: Printer = write, style: str = "") -> None:
    """A line of somebody else, behind a bar that goes down its side."""
    columns = width(sys.stdout if line is write else sys.stderr)
    for part in wrapped(text, columns and columns - len(bar)):
        line(bar + part, style, whole=True)


Painted = str | tuple[str, str]  # a text, or a text and its style


def columns(rows: Sequence[Sequence[Painted]], styles: Sequence[str] = (), gap: int = 2) -> None:
    """Rows in columns, the last of them broken to the terminal's width."""
    count = max(map(len, rows), default=0)
    plain = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    widest = [max(len(row[at]) for row in plain if at < len(row)) for at in range(count - 1)]
    start = sum(widest) + gap * len(widest)
    room = width()
    for row, texts in zip(rows, plain, strict=True):
        looks = [
            cell[1] if isinstance(cell, tuple) else styles[at] if at < len(styles) else ""
            for at, cell in enumerate(row)
        ]
        head = "".join(
            paint(text, look) + " " * (wide - len(text) + gap)
            for text, look, wide in zip(texts[:-1], looks, widest, strict=False)
        )
        for at, line in enumerate(wrapped(texts[-1], max(room - start, 12) if room else None)):
            write(((head if at == 0 else " " * start) + paint(line, looks[-1])).rstrip(), whole=True)


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
    """A document as JSON on stdout, with its FORMAT, which is 1 where it states none; docs/json.md
    describes each. Of a report that says more than its document, `kind` is what to tell."""
    import msgspec

    if kind is not None:
        document = msgspec.convert(document, kind, from_attributes=True, dec_hook=lambda _, value: value)
    builtins = msgspec.to_builtins(document, enc_hook=str)
    if format is not None:
        builtins = {"format": getattr(document, "FORMAT", format), **builtins}
    try:
        text = msgspec.json.encode(builtins)
    except UnicodeEncodeError:  # a file's name that is no text
        text = msgspec.json.encode(_as_text(builtins))
    sys.stdout.write(msgspec.json.format(text, indent=2).decode() + "\n")
    ANSWERED.set(True)


def _as_text(value: object) -> object:
    """Builtin values, in which every string is one."""
    if isinstance(value, str):
        return printable(value, "\t\n")
    if isinstance(value, Mapping):
        return {_as_text(key): _as_text(one) for key, one in value.items()}
    return [_as_text(one) for one in value] if isinstance(value, list | tuple) else value


def plain_table(*columns: str, right: Container[str] = (), wrapped: Container[str] = ()) -> Table:
    """A table without lines; what is in `right` are numbers, and only what is in `wrapped` may be broken."""
    from rich.table import Table

    class Rows(Table):
        """Whose cells hold no control character."""

        def add_row(self, *cells: Any, **options: Any) -> None:
            texts = [printable(cell, "\n") if isinstance(cell, str) else cell for cell in cells]
            super().add_row(*texts, **options)

    table = Rows(box=None, pad_edge=False, header_style="dim")
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


def command(*words: str, workspace: Path | None = None, nixpkgs: Sequence[str] | None = None) -> str:
    """A command of ours as a person can copy it; no workspace is named where it is this folder."""
    here = workspace is None or workspace.absolute() == Path.cwd()
    where = [] if here else ["-w", str(workspace)]
    given = [tree for tree in nixpkgs or () if tree != os.environ.get("TORCHSMITH_NIXPKGS")]
    trees = [word for tree in given for word in ("--nixpkgs", tree)]
    return " ".join(map(shell_word, ("torchsmith", *words, *trees, *where)))


def unknown_hashes(workspace: Path | None) -> list[str]:
    """Sources of a workspace's cells whose hash nobody knows: a build stops there."""
    from torchsmith.workspace.load import open_workspace

    try:
        opened = open_workspace(workspace)
    except Problem:
        return []
    catalog = opened.catalog
    builds = {(cell.line, cell.variant.cuda, cell.variant.package): None for cell in opened.matrix.cells}
    unknown: dict[str, None] = {}
    for name, cuda, package in builds:
        line = catalog.lines[name]
        if (build := line.build_for(cuda)) is not None:
            names = {one.name for one in catalog.below(package)} & {*catalog.unknown_hashes(line, build)}
            unknown |= dict.fromkeys(f"{one} {line.version_of(one)}" for one in sorted(names))
    return list(unknown)


def next_step(
    *words: str, workspace: Path | None = None, nixpkgs: Sequence[str] | None = None, why: str = ""
) -> None:
    """`next: torchsmith WORDS -w WORKSPACE`, on stderr, with the nixpkgs that was named; not to a program."""
    if ANSWERED.get():
        return
    if words[0] == "build" and (unknown := unknown_hashes(workspace)):
        learns = f"the hash of {some_of(unknown)} is not known"
        next_step("fix-hashes", workspace=workspace, nixpkgs=nixpkgs, why=f"first: {learns}")
    said = command(*words, workspace=workspace, nixpkgs=nixpkgs)
    sys.stdout.flush()  # what it follows comes first, also where both go into one file
    aside = f"   # {why}" if why else ""
    room = width(sys.stderr)
    if room and len(f"next: {said}{aside}") > room:
        aside = aside and f"\n      # {why}"
    tell(paint("next: ", "cyan", sys.stderr) + said + aside, whole=True)


def exit_if(wrong: object) -> None:
    """End here where something is not right, with the exit code that it is or else with 1."""
    if wrong:
        raise SystemExit(int(wrong if isinstance(wrong, Exit) else Exit.NOT_RIGHT))
