"""Whoever watches while a request is answered: remarks and progress beside the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchsmith.api.build_plan import BuildPlanReport
    from torchsmith.building.events import Event, Tick


class Watch:
    """Nobody watches; the command line's prints to stderr."""

    def remark(self, text: str) -> None:
        """Something to know that is not part of the report."""

    def status(self, activity: str) -> AbstractContextManager[Callable[[str], None]]:
        """While something goes on: what is called with what it has come to."""
        return nullcontext(lambda text: None)

    def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        """For so many steps: what is called with the name of each as it ends."""
        return nullcontext(lambda name: None)

    def reading(self) -> AbstractContextManager[Callable[[str, int, int], None]]:
        """While files are read: what is called with a file, the bytes read, and those to read."""
        return nullcontext(lambda file, done, total: None)

    def rounds(self, activity: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """While rounds are measured: what is called with those done and all of them."""
        return nullcontext(lambda done, total: None)

    def planned(self, plan: BuildPlanReport, slots: int) -> None:
        """A build is about to start, with so many jobs at once."""

    def event(self, event: Event | Tick) -> None:
        """Something happened in a build."""


SILENT = Watch()
