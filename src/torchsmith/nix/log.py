"""Nix's log of a build (`--log-format internal-json`) as typed events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torchsmith.nix.errors import parse_event, plain

BUILD, LOG_LINE, PHASE = 105, 101, 104  # Nix' numbers for an activity and for two results
ERRORS, NOTICES = 0, 3


@dataclass(frozen=True, slots=True)
class Building:
    """A build began; `builder` is empty on this machine."""

    derivation: str
    builder: str


@dataclass(frozen=True, slots=True)
class LogPhase:
    """A build entered a phase."""

    derivation: str
    phase: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a build's log, or of Nix itself if `derivation` is empty."""

    derivation: str
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Nix failed; its own message."""

    text: str


LogEvent = Building | LogPhase | LogLine | Failure


@dataclass
class LogReader:
    """Turns lines into events; remembers which activity is which build."""

    _builds: dict[int, str] = field(default_factory=dict)

    def read(self, line: str) -> Iterator[LogEvent]:
        """The events of one line; a line that is not an event of Nix is passed on."""
        event = parse_event(line)
        if event is None:
            if line.strip():
                yield LogLine("", plain(line))
            return
        action, number = event.get("action"), event.get("id", 0)
        if action == "start" and event.get("type") == BUILD:
            drv, builder = [*map(str, event.get("fields", ())), "", ""][:2]
            self._builds[number] = drv
            yield Building(drv, builder)
        elif action == "stop":
            self._builds.pop(number, None)
        elif action == "result":
            yield from self._result(event, self._builds.get(number, ""))
        elif action == "msg":
            yield from _message(event)

    def _result(self, event: Any, derivation: str) -> Iterator[LogEvent]:
        fields = event.get("fields", ())
        if event.get("type") == PHASE and fields:
            yield LogPhase(derivation, str(fields[0]))
        elif event.get("type") == LOG_LINE and fields:
            yield LogLine(derivation, plain(str(fields[0])))


def _message(event: Any) -> Iterator[LogEvent]:
    text = plain(str(event.get("msg", ""))).strip()
    if event.get("level") == ERRORS and text.startswith("error:"):
        yield Failure(text)
    elif text and event.get("level", NOTICES) < NOTICES and "--add-root" not in text:
        yield LogLine("", text)
