"""Printing: answers to stdout, words about them to stderr; in colour and columns, without loading anything
for a short answer."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Self, TextIO, TypeVar

from torchsmith.core.problem import Exit, Problem
from torchsmith.core.text import printable, shell_word, some_of

T = TypeVar("T")
ANSWERED = ContextVar("ANSWERED", default=False)  # whether this command has printed its document
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
PAINTED = re.compile(rf"(\x1b\[(?:{'|'.join(CODES.values())}|0|;)+m)")
DEFAULT_WIDTH = 80
COLUMN_GAP = 2  # between columns
MIN_COLUMN = 12  # columns of one that is broken into lines
REDRAW_SECONDS = 0.1
LABEL_COLUMNS = 12


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
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or DEFAULT_WIDTH
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
        label = not lines and " " not in line.strip(" ") and _seen(line) - start < LABEL_COLUMNS
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


def cut(name: str, room: int) -> str:
    """A name cut from the left: its end says the GPU and the instruction set."""
    return name if len(name) <= room else f"…{name[len(name) - room + 1 :]}" if room > 1 else ""


def quote(text: str, bar: str, line: Printer = write, style: str = "") -> None:
    """A line of somebody else, behind a bar that goes down its side."""
    columns = width(sys.stdout if line is write else sys.stderr)
    for part in wrapped(text, columns and columns - len(bar)):
        line(bar + part, style, whole=True)


Painted = str | tuple[str, str]  # a text, or a text and its style


def columns(
    rows: Sequence[Sequence[Painted]],
    styles: Sequence[str] = (),
    *,
    right: Container[int] = (),
    broken: Container[int] | None = None,
) -> None:
    """Print rows in columns; see `laid_out`."""
    for line in laid_out(rows, styles, room=width(), right=right, broken=broken):
        write(line, whole=True)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Painted]],
    *,
    right: Container[str] = (),
    broken: Container[str] = (),
) -> None:
    """Print rows below headings; the columns `right` are numbers, and only those `broken` may be broken."""
    columns(
        [[(heading, "dim") for heading in headings], *rows],
        right={at for at, heading in enumerate(headings) if heading in right},
        broken={at for at, heading in enumerate(headings) if heading in broken},
    )


def laid_out(
    rows: Sequence[Sequence[Painted]],
    styles: Sequence[str] = (),
    *,
    room: int | None = None,
    right: Container[int] = (),
    broken: Container[int] | None = None,
    stream: TextIO | None = None,
) -> list[str]:
    """Rows in columns as lines. Where they need more than `room`, the columns `broken`, else the last one,
    are broken between words; those in `right` stand at their right edge."""
    count = max(map(len, rows), default=0)
    cells = [
        [
            cell if isinstance(cell, tuple) else (cell, styles[at] if at < len(styles) else "")
            for at, cell in enumerate(row)
        ]
        for row in rows
    ]
    widths = [max(len(row[at][0]) for row in cells if at < len(row)) for at in range(count)]
    flexible = [at for at in range(count) if (at in broken if broken is not None else at == count - 1)]
    excess = sum(widths) + COLUMN_GAP * (count - 1) - room if room else 0
    while excess > 0 and (shrinking := [at for at in flexible if widths[at] > MIN_COLUMN]):
        widths[max(shrinking, key=lambda at: widths[at])] -= 1
        excess -= 1
    lines = []
    for row in cells:
        parts = [
            wrapped(text, widths[at]) if at in flexible and room else [text]
            for at, (text, _) in enumerate(row)
        ]
        for number in range(max(map(len, parts), default=0)):
            line = ""
            for at, (part, (_, style)) in enumerate(zip(parts, row, strict=True)):
                text = part[number] if number < len(part) else ""
                space = " " * (widths[at] - len(text))
                painted = paint(text, style, stream)
                line += (space + painted if at in right else painted + space) + " " * COLUMN_GAP
            lines.append(line.rstrip(" "))
    return lines


class Foot:
    """Lines at the foot of a terminal that are drawn again and again; nothing where nobody watches."""

    def __init__(self) -> None:
        self.room = width(sys.stderr) or DEFAULT_WIDTH
        self._watched = sys.stderr.isatty()
        self._lines: list[str] = []
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()
        sys.stderr.flush()

    @property
    def due(self) -> bool:
        """Whether it is long enough since the last drawing that the eye would see another."""
        return self._watched and time.monotonic() - self._drawn > REDRAW_SECONDS

    def draw(self, *lines: str) -> None:
        """Show these lines in place of the last ones."""
        if self._watched:
            self._erase()
            self._lines, self._drawn = list(lines), time.monotonic()
            for line in lines:
                fits = _seen(line) < self.room  # a line that the terminal broke could not be erased
                tell(line if fits else PAINTED.sub("", line)[: self.room - 1], whole=True)
            sys.stderr.flush()

    def above(self, line: str) -> None:
        """Print a line that stays, above those at the foot."""
        lines = self._lines
        self._erase()
        tell(line, whole=True)
        if lines:
            self.draw(*lines)

    def _erase(self) -> None:
        if self._lines:
            sys.stderr.write(f"\x1b[{len(self._lines)}A\x1b[J")
            self._lines = []


def print_json(document: object, *, format: int | None = 1, sort: bool = False) -> None:
    """A document as JSON on stdout, with its FORMAT, which is 1 where it states none; docs/json.md
    describes each. `sort`: it holds sets, which have no order of their own."""
    import msgspec

    builtins = msgspec.to_builtins(document, enc_hook=str, order="deterministic" if sort else None)
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
        return {_as_text(key): _as_text(item) for key, item in value.items()}
    return [_as_text(item) for item in value] if isinstance(value, list | tuple) else value


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
    fields = {"message": problem.message, "hint": problem.hint, "where": where}
    print_json({"error": {"code": problem.code(), **fields, "exit": int(problem.exit)}})


def command(*arguments: str, workspace: Path | None = None, nixpkgs: Sequence[str] = ()) -> str:
    """A command of ours as a person can copy it; no workspace is named where it is this folder."""
    here = workspace is None or workspace.absolute() == Path.cwd()
    where = [] if here else ["-w", str(workspace)]
    named = [tree for tree in nixpkgs if tree != os.environ.get("TORCHSMITH_NIXPKGS")]
    trees = [word for tree in named for word in ("--nixpkgs", tree)]
    return " ".join(map(shell_word, ("torchsmith", *arguments, *trees, *where)))


def unknown_hashes(workspace: Path | None) -> list[str]:
    """Sources of a workspace's cells whose hash nobody knows: a build stops there."""
    from torchsmith.workspace.load import open_workspace

    try:
        opened = open_workspace(workspace)
    except Problem:
        return []
    catalog = opened.catalog
    builds = {(cell.line, cell.variant.toolkit, cell.variant.package): None for cell in opened.matrix.cells}
    unknown: dict[str, None] = {}
    for name, toolkit, package in builds:
        line = catalog.lines[name]
        if (build := line.build_for(toolkit)) is not None:
            names = {below.name for below in catalog.below(package)} & {*catalog.unknown_hashes(line, build)}
            unknown |= dict.fromkeys(f"{name} {line.version_of(name)}" for name in sorted(names))
    return list(unknown)


def next_step(
    *arguments: str, workspace: Path | None = None, nixpkgs: Sequence[str] = (), why: str = ""
) -> None:
    """`next: torchsmith WORDS -w WORKSPACE`, on stderr, with the nixpkgs that was named; not to a program."""
    if ANSWERED.get():
        return
    if arguments[0] == "build" and (unknown := unknown_hashes(workspace)):
        learns = f"the hash of {some_of(unknown)} is not known"
        next_step("fix-hashes", workspace=workspace, nixpkgs=nixpkgs, why=f"first: {learns}")
    line = command(*arguments, workspace=workspace, nixpkgs=nixpkgs)
    sys.stdout.flush()  # what it follows comes first, also where both go into one file
    aside = f"   # {why}" if why else ""
    room = width(sys.stderr)
    if room and len(f"next: {line}{aside}") > room:
        aside = aside and f"\n      # {why}"
    tell(paint("next: ", "cyan", sys.stderr) + line + aside, whole=True)


def next_build(*recipes: str, workspace: Path | None, nixpkgs: Sequence[str] = ()) -> None:
    """That a build may be planned next."""
    why = "estimates time, memory and disk"
    next_step("build", "--dry-run", *recipes, workspace=workspace, nixpkgs=nixpkgs, why=why)


def exit_if(wrong: object) -> None:
    """End here where something is not right, with the exit code that it is or else with 1."""
    if wrong:
        raise SystemExit(int(wrong if isinstance(wrong, Exit) else Exit.CHECK_FAILED))


COMMAND_LINE = "\n" + " " * 10  # a shell reads on after &&


def print_commands(commands: Mapping[str, str]) -> None:
    """Each as it can be copied: a line for a step, none of them broken to the terminal's width."""
    for label, command in commands.items():
        write(f"  {paint(f'{label:<8}', 'cyan')}{command.replace(' && ', f' &&{COMMAND_LINE}')}", whole=True)
