"""Texts that several packages write alike: counts, durations, lists of names, printable text; grouping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import msgspec

# What moves a cursor, begins a line, turns the direction of writing, or is not a character.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
K = TypeVar("K")
V = TypeVar("V")


def some_of(names: Sequence[str], count: int = 1) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(map(printable, names[:count])) + more


def listed(names: Iterable[str], word: str = "and") -> str:
    """A; A and B; A, B and C."""
    *some, last = names
    return f"{', '.join(some)} {word} {last}" if some else last


def printable(text: str, keep: str = "") -> str:
    """Foreign text as it may be printed: control characters are escaped, a line break
    as two signs; those of `keep` stay."""
    return CONTROL.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def anchored(pattern: str) -> str:
    """A pattern for all of a text, as Python and JSON Schema read it: `$` alone lets a line break pass."""
    return rf"^(?:{pattern})$(?!\n)"


def written_as(pattern: str, words: str) -> msgspec.Meta:
    """A text of this form; `words` say in messages what is accepted."""
    import msgspec

    return msgspec.Meta(pattern=anchored(pattern), extra={"words": words})


def shell_word(word: str) -> str:
    """A word as a shell takes it."""
    import shlex  # only if a command is printed

    return shlex.quote(word)


def counted(number: int, thing: str, things: str = "") -> str:
    """1 cell, 44 cells; `things` if the plural has another form."""
    return f"{number} {thing if number == 1 else things or f'{thing}s'}"


def duration(seconds: float) -> str:
    """`2 h 05 min`, `3 min 20 s`, `4 s`."""
    total = round(seconds)
    if total >= 3600:
        return f"{total // 3600} h {total % 3600 // 60:02} min"
    if total >= 60:
        return f"{total // 60} min {total % 60:02} s"
    return f"{total} s"


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Values by the key that they have in common, in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
