"""A bar on stderr for a person who watches; nothing where nobody does."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from torchsmith.cli.console import err


class Bar:
    """Counts steps towards a total."""

    def __init__(self, total: int, words: str) -> None:
        self.console = err()
        self.total, self.words = total, words
        self._bar = None
        if self.console.is_terminal and total > 1:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._task = self._bar.add_task(words, total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, what: str) -> None:
        """One more is done."""
        if self._bar:
            self._bar.update(self._task, advance=1, description=f"{self.words} {what}")
