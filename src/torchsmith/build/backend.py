"""A backend builds one job at a time and says how it went; Nix and Flox are two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torchsmith.build.events import Event, Tick
from torchsmith.build.job import Job

Tell = Callable[[Event | Tick], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. The log holds the reason where it failed."""

    ok: bool
    outputs: tuple[str, ...] = ()
    builder: str = ""
    killed: bool = False  # by a signal and not by an error of its own: it may go well the next time
    said: str = ""  # the last lines of the log, where the file could not take them
    note: str = ""  # something to know though it went well


class Backend(Protocol):
    """Builds a job to its end; `stop` ends everything that is running, from any thread."""

    @property
    def name(self) -> str: ...
    def command(self, job: Job, cores: int) -> list[str]:
        """What a person would type to do the same."""
        ...

    def build(self, job: Job, cores: int, log: Path, tell: Tell) -> Outcome: ...
    def stop(self) -> None: ...
