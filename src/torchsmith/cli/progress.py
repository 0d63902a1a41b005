"""Bars on stderr for a person who watches; nothing where nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from torchsmith.api.watch import Watch
from torchsmith.cli.console import err, tell


@contextmanager
def _bar(words: str, *columns: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """What moves a bar: `update` of rich's Progress, or nothing at all."""
    console = err()
    if not console.is_terminal or total == 1:
        yield lambda **_: None
        return
    from rich import progress

    shown = [progress.TextColumn("{task.description}"), progress.BarColumn()]
    shown += [getattr(progress, name)() for name in columns]
    with progress.Progress(*shown, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(words, total=total))


@contextmanager
def steps_bar(words: str, total: int) -> Iterator[Callable[[str], None]]:
    """For steps towards a total, each with its name."""
    with _bar(words, "MofNCompleteColumn", "TimeElapsedColumn", total=total) as update:
        yield lambda what: update(advance=1, description=f"{words} {what}")


@contextmanager
def reading_bar() -> Iterator[Callable[[str, int, int], None]]:
    """For bytes that are read."""
    with _bar("reading", "DownloadColumn") as update:
        yield lambda what, done, total: update(
            description=what.rsplit("/", 1)[-1], completed=done, total=total
        )


@contextmanager
def rounds_bar(words: str) -> Iterator[Callable[[int, int], None]]:
    """For rounds that are measured."""
    with _bar(words, "MofNCompleteColumn", "TimeRemainingColumn") as update:
        yield lambda done, total: update(completed=done, total=total)


class Terminal(Watch):
    """The person at the command line: remarks and bars on stderr."""

    def remark(self, text: str) -> None:
        if text:
            tell(text, "yellow")

    @contextmanager
    def status(self, activity: str) -> Iterator[Callable[[str], None]]:
        with err().status(activity) as status:
            yield status.update

    def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        return steps_bar(activity, total)
