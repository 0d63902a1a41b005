"""Notes and progress while a request is answered, beside the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchsmith.building.events import Event, Tick
    from torchsmith.building.plan import BuildPlan


class Reporter:
    """Drops everything; the command line's reporter prints to stderr."""

    def note(self, text: str) -> None:
        """Report something that is not part of the answer."""

    def status(self, activity: str) -> AbstractContextManager[Callable[[str], None]]:
        """Yields a callback for status text."""
        return nullcontext(lambda text: None)

    def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        """Yields a callback for the name of each step that has ended."""
        return nullcontext(lambda name: None)

    def progress(self) -> AbstractContextManager[Callable[[str, int, int], None]]:
        """Yields a callback for a file, the bytes read, and the bytes to read."""
        return nullcontext(lambda file, done, total: None)

    def rounds(self, activity: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """Yields a callback for the rounds done and all rounds."""
        return nullcontext(lambda done, total: None)

    def planned(self, plan: BuildPlan, slots: int) -> None:
        """A build is about to start, with so many jobs at once."""

    def event(self, event: Event | Tick) -> None:
        """Something happened in a build."""


SILENT = Reporter()
