"""Words in colour and in columns, without loading anything: what short answers are printed with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
NARROW = 80


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


def write(text: str = "", style: str = "", stream: TextIO | None = None) -> None:
    """One line of an answer, just as it is: nothing in it is markup, and no terminal's width breaks it."""
    stream = stream or sys.stdout
    text = paint(text, style, stream)
    try:
        stream.write(text + "\n")
    except UnicodeEncodeError:
        known = stream.encoding or "ascii"
        stream.write(text.encode(known, "replace").decode(known) + "\n")


def tell(text: str, style: str = "") -> None:
    """One line for the person who watches."""
    write(text, style, sys.stderr)


def warn(text: str) -> None:
    """The same, where it should be seen."""
    tell(text, "yellow")


Printer = Callable[..., None]  # write or tell


def width() -> int | None:
    """Columns of the terminal; None where nobody watches, and nothing needs to be broken."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or NARROW
    except (OSError, ValueError):
        return None


def wrapped(text: str, columns: int | None, indent: int = 0) -> list[str]:
    """Lines of at most so many columns, broken between words; a longer word stays whole."""
    if columns is None or len(text) <= columns:
        return [text]
    start = " " * (len(text) - len(text.lstrip(" ")))
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > columns:
            lines.append(line)
            line = " " * indent + word
        else:
            line = f"{line} {word}" if line else start + word
    return [*lines, line]


def say(text: str, style: str = "", indent: int = 0) -> None:
    """A line of an answer; a terminal that is narrower breaks it between words."""
    for line in wrapped(" " * indent + text if indent else text, width(), indent + 2):
        write(line, style)


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
            write(((head if at == 0 else " " * start) + paint(line, looks[-1])).rstrip())
