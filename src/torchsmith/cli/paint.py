"""Words in colour and in columns, without loading anything: what short answers are printed with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
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
