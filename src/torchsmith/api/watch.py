"""Whoever watches while a request is answered: remarks and progress beside the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class Watch:
    """Nobody watches; the command line's prints to stderr."""

    def remark(self, text: str) -> None:
        """Something to know that is not part of the report."""

    def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        """For so many steps: what is called with the name of each as it ends."""
        return nullcontext(lambda name: None)


SILENT = Watch()
