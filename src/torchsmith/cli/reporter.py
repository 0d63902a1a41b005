"""Notes and progress while a request is answered, beside the report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from torchsmith.cli.console import Foot, paint, write_stderr

if TYPE_CHECKING:
    from torchsmith.building.events import Event
    from torchsmith.building.plan import BuildPlan

BAR_COLUMNS = 30
MIN_NAME_COLUMNS = 20
LONG_READ = 500_000_000  # bytes that take so long to read that it is said without a terminal too


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

    def progress(self, unit: str = "MB") -> AbstractContextManager[Callable[[str, int, int], None]]:
        """Yields a callback for a file or an activity, what is done, and all that is to do: in bytes if the
        unit is MB."""
        return nullcontext(lambda name, done, total: None)

    def planned(self, plan: BuildPlan) -> None:
        """A build is about to start."""

    def event(self, event: Event) -> None:
        """Something happened in a build."""


SILENT = Reporter()


def _bar(activity: str, done: float, total: float, figures: str, room: int) -> str:
    """A line such as `evaluating pytorch-… ━━━━━━      12/40`."""
    filled = round(BAR_COLUMNS * min(done / total, 1)) if total else 0
    tail = f" {paint('━' * filled, 'green', sys.stderr)}{' ' * (BAR_COLUMNS - filled)} {figures}"
    return cut(activity, max(room - BAR_COLUMNS - len(figures) - 3, MIN_NAME_COLUMNS)) + tail


def cut(name: str, room: int) -> str:
    """A name cut from the left: its end says the GPU and the instruction set."""
    return name if len(name) <= room else f"…{name[len(name) - room + 1 :]}" if room > 1 else ""


class Terminal(Reporter):
    """Prints notes, and draws progress bars if stderr is a terminal."""

    def note(self, text: str) -> None:
        if text:
            write_stderr(text, "yellow")

    @contextmanager
    def status(self, activity: str) -> Iterator[Callable[[str], None]]:
        with Foot() as foot:
            foot.draw(cut(activity, foot.room - 1))
            yield lambda text: foot.draw(cut(text, foot.room - 1)) if foot.due else None

    @contextmanager
    def steps(self, activity: str, total: int) -> Iterator[Callable[[str], None]]:
        with Foot() as foot:
            done = 0

            def step(name: str) -> None:
                nonlocal done
                done += 1
                if foot.due and total > 1:
                    foot.draw(_bar(f"{activity} {name}", done, total, f"{done}/{total}", foot.room))

            yield step

    @contextmanager
    def progress(self, unit: str = "MB") -> Iterator[Callable[[str, int, int], None]]:
        said = sys.stderr.isatty()
        with Foot() as foot:

            def read(name: str, done: int, total: int) -> None:
                nonlocal said
                if not said and unit == "MB" and total > LONG_READ:
                    said = True
                    write_stderr(f"reading {total / 1e6:.0f} MB", "dim")
                if foot.due:
                    size = 1e6 if unit == "MB" else 1
                    figures = f"{done / size:.0f}/{total / size:.0f} {unit}"
                    foot.draw(_bar(name.rsplit("/", 1)[-1], done, total, figures, foot.room))

            yield read
