"""A run for people and programs: a live table on a terminal, plain lines elsewhere, events as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torchsmith.build.events import Event
from torchsmith.build.plan import BuildPlan

STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow"}
MARKS = {"done": "✓", "failed": "✗", "skipped": "-"}


def duration(seconds: float) -> str:
    """`2 h 05 min`, `3 min 20 s`, `4 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole} s"


class View(Protocol):
    """Shows a run as it goes."""

    def tell(self, event: Event) -> None: ...


class JsonView:
    """One JSON object a line."""

    def tell(self, event: Event) -> None:
        if event.kind == "note" and not event.words:
            return
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()


class PlainView:
    """A line for each thing that a log should keep; a percentage now and then."""

    def __init__(self, console: Console, names: Mapping[str, str]) -> None:
        self.console = console
        self.names = names
        self._tenths: dict[str, int] = {}

    def tell(self, event: Event) -> None:
        words = self._words(event)
        if words:
            self.console.print(Text(words), soft_wrap=True)

    def _words(self, event: Event) -> str:
        name = event.name or self.names.get(event.job, event.job)
        match event.kind:
            case "run-started":
                return f"{event.counts.get('waiting', 0)} jobs"
            case "job-started":
                expected = f", about {duration(event.expected)}" if event.expected >= 1 else ""
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                return f"{name}: started{again}{expected}"
            case "steps":
                tenth = event.done * 10 // max(event.total, 1)
                if tenth <= self._tenths.get(event.job, 0):
                    return ""
                self._tenths[event.job] = tenth
                return f"{name}: {event.done} of {event.total} steps"
            case "building" if event.builder:
                return f"{name}: {event.derivation} on {event.builder}"
            case "retry":
                return f"{name}: {event.words}; {_again(event)}"
            case "job-ended":
                took = f" in {duration(event.seconds)}" if event.seconds else ""
                told = f": {event.words}" if event.words else ""
                return f"{name}: {event.state}{took}{told}"
            case "note" if event.words:
                return f"{name}: {event.words}" if name else event.words
            case _:
                return ""


@dataclass
class _Shown:
    name: str
    started: float
    expected: float
    phase: str = ""
    steps: str = ""
    builder: str = ""


@dataclass
class LiveView:
    """A table of what runs, and one line for all of it."""

    live: Live
    plan: BuildPlan
    began: float = field(default_factory=time.monotonic)
    running: dict[str, _Shown] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = {job.key: job.name for job in self.plan.jobs}
        self.left = {key: one.seconds for key, one in self.plan.expected.items()}

    def tell(self, event: Event) -> None:
        if event.kind == "job-started":
            self.running[event.job] = _Shown(event.name, time.monotonic(), event.expected)
        elif event.kind in ("phase", "steps", "building") and event.job in self.running:
            self._progress(self.running[event.job], event)
        elif event.kind in ("job-ended", "retry"):
            self.running.pop(event.job, None)
            if event.kind == "job-ended":
                self.left.pop(event.job, None)
            self._past(event)
        elif event.kind == "note" and event.words:
            about = f"{event.name}: " if event.name else ""
            self.live.console.print(Text(f"  {about}{event.words}", style="yellow"))
        self.counts |= event.counts
        self.live.update(self._table())

    def _progress(self, shown: _Shown, event: Event) -> None:
        if event.kind == "phase":
            shown.phase = event.phase.removesuffix("Phase")
        elif event.kind == "steps":
            shown.steps = f"{event.done}/{event.total}"
        else:
            shown.builder = event.builder

    def _past(self, event: Event) -> None:
        if event.kind == "retry":
            line = Text(f"↻ {event.name}: {event.words}; {_again(event)}", style="yellow")
        else:
            line = Text(f"{MARKS.get(event.state, ' ')} ", style=STYLES.get(event.state, ""))
            line.append(event.name, style="default").append(f"  {duration(event.seconds)}", style="dim")
            line.append(f"  {event.words}" if event.words else "", style=STYLES.get(event.state, ""))
        self.live.console.print(line, soft_wrap=True)

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="cyan")
        for column, width in (("steps", 9), ("elapsed", 12), ("expected", 12), ("phase", 12), ("job", None)):
            table.add_column(column, no_wrap=True, min_width=width)
        for shown in self.running.values():
            elapsed = duration(time.monotonic() - shown.started)
            expected = duration(shown.expected)
            where = f"{shown.name} on {shown.builder}" if shown.builder else shown.name
            table.add_row(shown.steps, elapsed, expected, shown.phase, Text(where))
        return Group(table, self._summary())

    def _summary(self) -> Text:
        running = len(self.running)
        waiting = len(self.left) - running
        side_by_side = max(1, min(self.plan.share.jobs, len(self.left)))
        spent = sum(min(time.monotonic() - shown.started, shown.expected) for shown in self.running.values())
        rest = (sum(self.left.values()) - spent) / side_by_side
        done = self.counts.get("done", 0)
        failed = self.counts.get("failed", 0)
        words = f"{done} done, {running} running, {max(0, waiting)} waiting"
        words += f", {failed} failed" if failed else ""
        end = time.strftime("%H:%M", time.localtime(time.time() + rest))
        return Text(
            f"{words}; {duration(time.monotonic() - self.began)} so far, end expected about {end}",
            style="dim",
        )


@contextmanager
def watching(plan: BuildPlan, console: Console, *, as_json: bool) -> Iterator[View]:
    """The view that fits: JSON when asked for, live on a terminal, lines elsewhere."""
    if as_json:
        yield JsonView()
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield LiveView(live, plan)
    else:
        yield PlainView(console, {job.key: job.name for job in plan.jobs})


def _again(event: Event) -> str:
    """When and how a job is tried again."""
    if event.cores:
        return f"trying again with {event.cores} cores"
    return f"attempt {event.attempt} in {duration(event.seconds)}"
