"""Printing: answers to stdout, notes to stderr, in colour and columns. A short answer loads nothing else."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Self, TextIO, TypeVar

from torchsmith.core.problem import Exit, Problem
from torchsmith.core.text import printable, shell_word, some_of

T = TypeVar("T")
ANSWERED = ContextVar("ANSWERED", default=False)  # whether this command has printed its document
JSON_LINES = ContextVar("JSON_LINES", default=False)  # whether this command prints a line for each event
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
PAINTED = re.compile(rf"(\x1b\[(?:{'|'.join(CODES.values())}|0|;)+m)")
ASCII = str.maketrans("●▲·✓✗–│━±µ", "*!.+x-|=~u") | str.maketrans({"…": "..."})
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
    """Return the text in a style, if the stream shows styles."""
    if not style or not text or not _colours(stream or sys.stdout):
        return text
    codes = ";".join(CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def write(
    text: str = "", style: str = "", stream: TextIO | None = None, *, hang: int = 2, wrap: bool = True
) -> None:
    """Print a line. On a narrow terminal it is broken between words, and continued `hang` columns further in,
    unless `wrap` is off."""
    stream = stream or sys.stdout
    room = width(stream) if wrap else None
    for line in text.split("\n"):
        for part in wrapped(line, room, hang):
            _put(paint(part, style, stream), stream)


def _put(line: str, stream: TextIO) -> None:
    """Print a line without control characters, except tabs and our own colours."""
    parts = PAINTED.split(line) if _colours(stream) else [line]
    line = "".join(part if at % 2 else printable(part, "\t") for at, part in enumerate(parts))
    try:
        write_out(line + "\n", stream)
    except UnicodeEncodeError:
        known = stream.encoding or "ascii"
        write_out(line.translate(ASCII).encode(known, "replace").decode(known) + "\n", stream)


def write_out(text: str, stream: TextIO | None = None, *, flush: bool = False) -> None:
    """Write text as it is, to stdout by default. An OSError has the name of the stream."""
    stream = stream or sys.stdout
    try:
        stream.write(text)
        if flush:
            stream.flush()
    except OSError as error:
        error.filename = "standard error" if stream is sys.stderr else "standard output"
        raise


def write_stderr(text: str, style: str = "", *, hang: int = 2, wrap: bool = True) -> None:
    """Print a line to stderr."""
    write(text, style, sys.stderr, hang=hang, wrap=wrap)


def warn(text: str) -> None:
    """Print a line to stderr, in yellow."""
    write_stderr(text, "yellow")


Printer = Callable[..., None]  # write or write_stderr


def width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal; None if there is no terminal."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return None


def wrapped(text: str, columns: int | None, hang: int = 0) -> list[str]:
    """Return lines of at most so many columns, broken between words. A longer word is not broken, and a label
    at the start stays with the text after it."""
    if columns is None or _display_width(text) <= columns:
        return [text]
    start = len(text) - len(text.lstrip(" "))
    lines: list[str] = []
    line, room = " " * start, columns - start
    for word in text[start:].split(" "):
        fresh = not line.strip(" ")
        label = not lines and " " not in line.strip(" ") and _display_width(line) - start < LABEL_COLUMNS
        needed = _display_width(word) + (not fresh)
        if needed > room and not (fresh or label):
            lines.append(line.rstrip(" "))
            line, room, fresh = " " * (start + hang), columns - start - hang, True
            needed = _display_width(word)
        if word or not fresh:
            line += word if fresh else f" {word}"
            room -= needed
    return [*lines, line]


def _display_width(text: str) -> int:
    """Return how many columns a text takes: colours take none."""
    first, *coloured = text.split("\x1b[")
    return len(first) + sum(len(part.partition("m")[2]) for part in coloured)


def quote(text: str, bar: str, line: Printer = write) -> None:
    """Print a quoted line, with a bar in front of each of its parts."""
    columns = width(sys.stdout if line is write else sys.stderr)
    for part in wrapped(text, columns and columns - len(bar)):
        line(bar + part, wrap=False)


Painted = str | tuple[str, str]  # a text, or a text and its style


def columns(
    rows: Sequence[Sequence[Painted]],
    styles: Sequence[str] = (),
    *,
    right: Container[int] = (),
    broken: Container[int] | None = None,
) -> None:
    """Print rows in columns. If they need more than the terminal has, the columns `broken`, or else the last
    one, are broken between words; those in `right` are aligned right."""
    room = width()
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
                painted = paint(text, style)
                line += (space + painted if at in right else painted + space) + " " * COLUMN_GAP
            write(line.rstrip(" "), wrap=False)


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


class Foot:
    """A line at the bottom of a terminal that is redrawn; without a terminal nothing is printed."""

    def __init__(self) -> None:
        self.room = width(sys.stderr) or DEFAULT_WIDTH
        self._watched = sys.stderr.isatty()
        self._drawn = False
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()
        sys.stderr.flush()

    @property
    def due(self) -> bool:
        """Whether the last drawing is long enough ago for another."""
        return self._watched and time.monotonic() - self._drawn_at > REDRAW_SECONDS

    def draw(self, line: str) -> None:
        """Draw this line in place of the last one."""
        if self._watched:
            self._erase()
            self._drawn, self._drawn_at = True, time.monotonic()
            fits = _display_width(line) < self.room  # a line that the terminal broke could not be erased
            write_stderr(line if fits else PAINTED.sub("", line)[: self.room - 1], wrap=False)
            sys.stderr.flush()

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\x1b[1A\x1b[J")
            self._drawn = False


def to_json(report: object, *, line: bool = False) -> str:
    """A report as `--json` prints it: with the number of its format, and on one line if `line`."""
    import json

    import msgspec

    sets = getattr(report, "HAS_SETS", False)
    builtins = msgspec.to_builtins(report, enc_hook=str, order="deterministic" if sets else None)
    builtins = {"format": getattr(report, "FORMAT", 1), **builtins}
    try:
        text = msgspec.json.encode(builtins)
    except UnicodeEncodeError:  # a file name that is not text
        text = json.dumps(builtins).encode()
    return msgspec.json.format(text, indent=-1 if line else 2).decode()


def print_json(document: object, *, line: bool = False) -> None:
    """Print a document as JSON; docs/json.md describes each."""
    write_out(to_json(document, line=line) + "\n")
    ANSWERED.set(True)


def answer(document: T, for_people: Callable[[T], None], *, as_json: bool) -> None:
    """Print an answer as JSON or for people."""
    if as_json:
        print_json(document)
    else:
        for_people(document)


def print_problem(problem: Problem) -> None:
    """Print a problem with its place and its hint."""
    place = paint(f"{problem.where}: ", "bold", sys.stderr) if problem.where else ""
    write_stderr(place + paint("error: ", "bold red", sys.stderr) + problem.message)
    if problem.hint:
        write_stderr(paint("  hint: ", "cyan", sys.stderr) + problem.hint)


def print_problem_json(problem: Problem) -> None:
    """Print a problem as JSON, unless a document was printed already."""
    if ANSWERED.get():
        return
    from torchsmith.cli.error_report import ErrorFields, ErrorReport

    where = str(problem.where) if problem.where else None
    error = ErrorFields(problem.code(), problem.message, problem.hint, where, int(problem.exit))
    print_json(ErrorReport(error), line=JSON_LINES.get())


def command(*arguments: str, workspace: Path | None = None, nixpkgs: Sequence[str] = ()) -> str:
    """Return a torchsmith command to copy; a workspace in this folder is not named."""
    here = workspace is None or workspace.absolute() == Path.cwd()
    where = [] if here else ["-w", str(workspace)]
    named = [tree for tree in nixpkgs if tree != os.environ.get("TORCHSMITH_NIXPKGS")]
    trees = [word for tree in named for word in ("--nixpkgs", tree)]
    return " ".join(map(shell_word, ("torchsmith", *arguments, *trees, *where)))


def next_step(
    *arguments: str, workspace: Path | None = None, nixpkgs: Sequence[str] = (), why: str = ""
) -> None:
    """Print `next: torchsmith WORDS -w WORKSPACE` to stderr, with the given nixpkgs; not with --json."""
    if ANSWERED.get():
        return
    line = command(*arguments, workspace=workspace, nixpkgs=nixpkgs)
    sys.stdout.flush()  # keeps the order if both streams go into one file
    aside = f"   # {why}" if why else ""
    room = width(sys.stderr)
    if room and len(f"next: {line}{aside}") > room:
        aside = aside and f"\n      # {why}"
    write_stderr(paint("next: ", "cyan", sys.stderr) + line + aside, wrap=False)


def next_build(*recipes: str, workspace: Path | None, nixpkgs: Sequence[str] = ()) -> None:
    """Suggest to plan a build, and before it to find the hashes of sources without which it stops."""
    unknown = _unknown_hashes(workspace)
    if unknown and "sample" not in nixpkgs:
        why = f"first: the hash of {some_of(unknown)} is not known"
        next_step("fix-hashes", workspace=workspace, nixpkgs=nixpkgs, why=why)
    why = "estimates time, memory and disk"
    next_step("build", "--dry-run", *recipes, workspace=workspace, nixpkgs=nixpkgs, why=why)


def _unknown_hashes(workspace: Path | None) -> list[str]:
    """The sources of a workspace's cells whose hash is unknown."""
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


def exit_if(wrong: object) -> None:
    """Exit if something is wrong: with the given exit code, or with 1."""
    if wrong:
        raise SystemExit(int(wrong if isinstance(wrong, Exit) else Exit.CHECK_FAILED))


def command_lines(commands: Mapping[str, str]) -> Iterator[str]:
    """Commands to copy, each step on a line of its own: a shell reads on after &&."""
    for label, command in commands.items():
        first, *rest = command.split(" && ")
        yield f"  {paint(f'{label:<8}', 'cyan')}{first}{' &&' if rest else ''}"
        yield from (f"{' ' * 10}{step} &&" for step in rest[:-1])
        yield from (f"{' ' * 10}{step}" for step in rest[-1:])


def print_commands(commands: Mapping[str, str]) -> None:
    """Print commands to copy, not broken."""
    for line in command_lines(commands):
        write(line, wrap=False)
