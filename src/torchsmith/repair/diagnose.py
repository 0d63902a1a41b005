"""Why a build failed: the known error with its cause and cure, its class, and the ten lines that matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torchsmith.catalog import KnownError
from torchsmith.catalog.facts import ErrorClass, Policy

SHOWN = 10
BEFORE = 4  # of the lines shown, how many stand before the telling one
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# What a failure without an entry in the catalog is taken for; the first that a line matches.
SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "compile",
        re.compile(r"^FAILED: |\b(?:fatal )?error: (?!builder for|\d+ dependencies|build of)|: error [A-Z]"),
    ),
    (
        "compile",
        re.compile(r"undefined reference|ninja: build stopped|CMake Error|make(?:\[\d+\])?: \*\*\* "),
    ),
    ("runtime", re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): |AssertionError|Segmentation fault")),
    ("evaluation", re.compile(r"^error: (?:undefined variable|syntax error|infinite recursion)")),
)
LAST_RESORT = re.compile(r"\berror\b|\bfailed\b", re.IGNORECASE)
Class = ErrorClass | Literal["unknown"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A failure, told: its class, what to do about it, and the lines that show it."""

    kind: Class
    policy: Policy
    title: str
    cause: str
    cure: str
    lines: tuple[str, ...]
    error: str = ""  # the catalog's entry; empty where no entry matches
    line_number: int = 0  # of the telling line, counted from 1; 0 where there is none

    @property
    def summary(self) -> str:
        return f"{self.title} ({self.kind})"


def diagnose(log: str, errors: Iterable[KnownError]) -> Diagnosis:
    """Hold a log against the known errors, in their order; else say what class of failure it looks like."""
    lines = [ANSI.sub("", line).rstrip() for line in log.splitlines()]
    for error in errors:
        pattern = re.compile(error.pattern)
        at = next((index for index, line in enumerate(lines) if pattern.search(line)), None)
        if at is not None:
            return Diagnosis(
                error.kind,
                error.policy,
                error.title,
                error.cause,
                error.cure,
                telling_lines(lines, at),
                error.name,
                at + 1,
            )
    return _unknown(lines)


def _unknown(lines: Sequence[str]) -> Diagnosis:
    kind: Class = "unknown"
    at = None
    for sign, pattern in SIGNS:
        at = next((index for index, line in enumerate(lines) if pattern.search(line)), None)
        if at is not None:
            kind = sign  # type: ignore[assignment]
            break
    else:
        found = [index for index, line in enumerate(lines) if LAST_RESORT.search(line)]
        at = found[-1] if found else None
    title = {
        "compile": "the compiler or its build system refused",
        "runtime": "a program that the build ran failed",
        "evaluation": "the recipe does not evaluate",
    }.get(kind, "an error that nobody has described yet")
    telling = telling_lines(lines, at if at is not None else len(lines) - 1)
    cure = "Read the lines below; once understood, add it to catalog/errors.toml of the workspace."
    return Diagnosis(
        kind,
        "stop",
        title,
        "The catalog has no entry for it.",
        cure,
        telling,
        "",
        (at + 1) if at is not None else 0,
    )


def telling_lines(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """The lines around a place, ten at most, without empty and repeated ones."""
    before = _distinct(lines[max(0, at - 40) : at])[-BEFORE:]
    after = _distinct(lines[at : at + 60])[: SHOWN - len(before)]
    return (*before, *after)


def _distinct(lines: Sequence[str]) -> list[str]:
    return [line for line in dict.fromkeys(lines) if line.strip()]
