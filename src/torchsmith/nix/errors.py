"""Nix' error messages, shortened to their cause with file and line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from torchsmith.core.problem import Where
from torchsmith.core.text import printable

ABORT = re.compile(r"evaluation aborted with the following error message: '(.*)'", re.DOTALL)
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
AT = re.compile(r"^\s*at (\S+?):(\d+)(?::(\d+))?:?\s*$", re.MULTILINE)


@cache
def _causes() -> list[tuple[re.Pattern[str], str]]:
    """causes.toml: patterns of Nix's messages, and a plainer message for each."""
    rows = tomllib.loads(files("torchsmith.nix").joinpath("causes.toml").read_text())["cause"]
    return [(re.compile(row["pattern"]), row["words"]) for row in rows]


# Why a recipe has no derivation: an error of its own, a download that failed, a limit of time or memory, or a
# nixpkgs that cannot be used for its system.
CauseCode = Literal["recipe", "fetch", "limit", "system"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What went wrong, in one line, and where in which file."""

    message: str
    where: Where | None = None
    code: CauseCode = "recipe"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def plain(text: str) -> str:
    """Text without a terminal's colours."""
    return ANSI.sub("", text)


def parse_event(line: str) -> Mapping[str, Any] | None:
    """One line of `--log-format internal-json`, or None for anything else."""
    if not line.startswith("@nix "):
        return None
    try:
        event = msgspec.json.decode(line[5:])
    except msgspec.DecodeError:
        return None
    return event if isinstance(event, dict) else None


def cause_of(event: Mapping[str, Any]) -> Cause:
    """The cause in an error event: Nix names the innermost message and place itself."""
    message = plain(str(event.get("raw_msg") or event.get("msg") or "")).strip()
    file = re.sub(r":\d+:\d+$", "", str(event.get("file") or ""))
    where = None
    if file and not file.startswith(("(", "«")):
        where = Where(file, int(event.get("line") or 0), int(event.get("column") or 0))
    return shorten(message, where)


def error_in(stderr: str) -> Cause:
    """The cause in what a command of Nix wrote: its last error event, else its last message."""
    events = [event for line in stderr.splitlines() if (event := parse_event(line)) is not None]
    errors = [event for event in events if event.get("action") == "msg" and event.get("level") == 0]
    return cause_of(errors[-1]) if errors else shorten(stderr)


def shorten(message: str, where: Where | None = None) -> Cause:
    """The message that causes.toml has for it, or else its own first sentence after the last `error:`."""
    text = plain(message).strip()
    if where is None and (places := AT.findall(text)):
        file, line, column = places[-1]
        where = Where(file, int(line), int(column or 0))
    for pattern, template in _causes():
        if match := pattern.search(text):
            shortened = template.format(*(group for group in match.groups() if group is not None))
            return Cause(printable(shortened), where)
    if aborted := ABORT.search(text):
        text = aborted[1]
    last = re.split(r"(?:^|\n)\s*error:\s*", text)[-1]
    lines = [line.strip() for line in AT.sub("", last).splitlines()]
    sentences = [line for line in lines if line and not re.match(r"\d*\||…|\(use '--show-trace'", line)]
    return Cause(printable(_sentence(sentences)), where)


def _sentence(lines: list[str]) -> str:
    """The first line, and the next if the first ends in a colon."""
    if not lines:
        return "Nix gave no reason"
    first = lines[0]
    if first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[1]}"
    return first if len(first) <= 300 else f"{first[:299]}…"
