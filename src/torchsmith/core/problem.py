"""The error class for users: what is wrong, where, what to do, and the exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from copyreg import __newobj__  # type: ignore[attr-defined]
from dataclasses import dataclass
from enum import IntEnum
from typing import Self, TypeVar

from torchsmith.core.text import printable

T = TypeVar("T")


class Exit(IntEnum):
    """What the exit code of every verb means."""

    OK = 0
    CHECK_FAILED = 1  # the thing that was checked is not right
    BAD_REQUEST = 2  # the request was wrong
    ENVIRONMENT = 3  # the environment lacks something


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a file, counted from 1 as editors do."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [printable(self.file), *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


ValuePath = tuple[str | int, ...]  # keys and indices that lead to a value in a file


class Problem(Exception):
    """An error that a user can understand; a traceback is only for bugs of torchsmith.

    Its class is its kind, with one exit code. `where` is its place; `path` is the value it is about, while
    its place is still to be found.
    """

    exit = Exit.BAD_REQUEST

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        where: Where | None = None,
        path: ValuePath = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.path = path

    @classmethod
    def code(cls) -> str:
        """The kind for programs: not-found of a NotFound."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return place + self.message + (f"\n  hint: {self.hint}" if self.hint else "")

    def replace(self, **changed: object) -> Self:
        """The same problem with another message, hint, place or path."""
        same = copy(self)
        same.__dict__.update(changed)
        return same

    def __reduce__(self) -> tuple[object, ...]:
        """As a copy and a pickle keep it: subclasses take other arguments than Exception does."""
        return __newobj__, (type(self), self.message), self.__dict__


class NotKnown(Problem):
    """An unknown GPU, line, rule or key."""


class NotFound(Problem):
    """A file, recipe, build or revision that does not exist."""


class Exists(Problem):
    """What would be created exists already."""


class Empty(Problem):
    """Nothing matches the request, or nothing is left to do."""


class Invalid(Problem):
    """A value or a file in a wrong form."""


class TooLarge(Problem):
    """More than a limit allows."""


class Conflict(Problem):
    """Parts of a request or of a file that contradict each other."""


class Incomplete(Problem):
    """A request or a file that lacks something necessary."""


class CannotBuild(Problem):
    """A build that is not possible."""

    exit = Exit.CHECK_FAILED


class NotBuilt(Problem):
    """A build that does not exist here yet."""

    exit = Exit.ENVIRONMENT


class Broken(Problem):
    """A build that does not run."""

    exit = Exit.CHECK_FAILED


class CannotRead(Problem):
    """A file that cannot be read."""


class CannotWrite(Problem):
    """A place that cannot be written to."""

    exit = Exit.ENVIRONMENT


class MissingRequirement(Problem):
    """A program, a permission, memory or disk space is missing on this machine."""

    exit = Exit.ENVIRONMENT


class Busy(Problem):
    """Another torchsmith is running there."""

    exit = Exit.ENVIRONMENT


class Failed(Problem):
    """A program failed: Nix, git, pip."""

    exit = Exit.ENVIRONMENT


class Refused(Problem):
    """Refused, because something would be lost or is not safe."""

    exit = Exit.CHECK_FAILED


class Usage(Problem):
    """A command line that cannot be read."""


MOST_KNOWN = 40  # words that a hint lists


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """The known spelling closest to `word`, or an empty string. A word with other digits is never
    close: sm95 is not sm90, nor avx51 avx512."""
    import difflib  # only if a word is wrong

    alike = [name for name in known if _digits(name) == _digits(word)]
    matches = difflib.get_close_matches(word, alike, n=1, cutoff=cutoff)
    return matches[0] if matches else ""


def _digits(word: str) -> list[str]:
    return [letter for letter in word if letter.isdigit()]


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """A hint that names the nearest spelling, or else every known one if they are few."""
    choices = list(known)
    if best := nearest(word, choices, cutoff):
        return f"did you mean {best}?"
    return f"known: {', '.join(choices)}" if 0 < len(choices) <= MOST_KNOWN else ""


def by_name(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The entry with a name. Raises NotKnown, with the nearest name as its hint."""
    try:
        return known[name]
    except KeyError:
        raise NotKnown(f"unknown {kind} {name!r}", hint=did_you_mean(name, known)) from None
