"""A run for people and programs: a live table on a terminal, plain lines elsewhere, events as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from torchsmith.building import events
from torchsmith.building.job import Tell
from torchsmith.building.plan import BuildPlan
from torchsmith.cli.remaining import Remaining, cut, duration, moment
from torchsmith.core.words import printable

STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow"}
ORDER = ("done", "running", "waiting", "failed", "skipped")
NAMED = 24  # columns that a name needs to be told from others: CUDA, GPU and instruction set
MARKS = {"done": "✓", "failed": "✗", "skipped": "-"}


def tell_json(event: events.Event | events.Tick) -> None:
    """One JSON object a line."""
    if not isinstance(event, events.Tick):
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()


class PlainView:
    """A line for each thing that a log should keep; a percentage now and then."""

    def __init__(self, console: Console, names: Mapping[str, str]) -> None:
        self.console = console
        self.names = names
        self._tenths: dict[str, int] = {}

    def tell(self, event: events.Event | events.Tick) -> None:
        words = self._words(event)
        if words:
            self.console.print(Text(printable(words)), soft_wrap=True)

    def _words(self, event: events.Event | events.Tick) -> str:
        match event:
            case events.RunStarted():
                return f"{event.counts.get('waiting', 0)} jobs"
            case events.JobStarted():
                expected = f", about {duration(event.expected)}" if event.expected >= 1 else ""
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                return f"{event.name}: started{again}{expected}"
            case events.JobSteps():
                tenth = event.done * 10 // max(event.total, 1)
                if tenth <= self._tenths.get(event.job, 0):
                    return ""
                self._tenths[event.job] = tenth
                return f"{self._name(event.job)}: {event.done} of {event.total} steps"
            case events.JobBuilding() if event.builder:
                return f"{self._name(event.job)}: {event.derivation} on {event.builder}"
            case events.JobRetried():
                return f"{event.name}: {event.words}; {_again(event)}"
            case events.JobEnded():
                took = f" in {duration(event.seconds)}" if event.seconds else ""
                told = f": {event.words}" if event.words else ""
                return f"{event.name}: {event.state}{took}{told}"
            case events.RecipeVerified():
                return f"{event.name}: {_promise(event)}"
            case events.Remark():
                return f"{event.name}: {event.words}" if event.name else event.words
            case _:
                return ""

    def _name(self, key: str) -> str:
        return self.names.get(key, key)


@dataclass
class _Shown:
    name: str
    started: float
    phase: str = ""
    done: int = 0
    total: int = 0
    builder: str = ""

    def progress(self, event: events.JobPhase | events.JobSteps | events.JobBuilding) -> None:
        match event:
            case events.JobPhase():
                self.phase = event.phase.removesuffix("Phase")
            case events.JobSteps():
                self.done, self.total = event.done, event.total
            case events.JobBuilding():
                self.builder = event.builder


COLUMNS = (("steps", 9), ("elapsed", 11), ("left", 11), ("phase", 9))


@dataclass
class LiveView:
    """A table of what runs, and one line for all of it."""

    live: Live
    plan: BuildPlan
    slots: int = 1
    began: float = field(default_factory=time.monotonic)
    running: dict[str, _Shown] = field(default_factory=dict)
    # Names, and when they are tried again.
    resting: dict[str, tuple[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expected = {key: one.seconds for key, one in self.plan.expected.items()}
        packages = {job.key: job.package for job in self.plan.jobs}
        self.remaining = Remaining(expected, packages, self.slots)

    def tell(self, event: events.Event | events.Tick) -> None:
        match event:
            case events.JobStarted():
                self.resting.pop(event.job, None)
                self.running[event.job] = _Shown(event.name, time.monotonic())
            case events.JobPhase() | events.JobSteps() | events.JobBuilding() if event.job in self.running:
                self.running[event.job].progress(event)
            case events.JobEnded():
                self._ended(event)
            case events.JobRetried():
                self.running.pop(event.job, None)
                self.resting[event.job] = (event.name, time.monotonic() + event.seconds)
                self._print(Text(f"↻ {event.name}: {event.words}; {_again(event)}", style="yellow"))
            case events.RecipeVerified():
                self._print(Text(f"  {event.name}: {_promise(event)}", style="green" if event.ok else "red"))
            case events.Remark():
                about = f"{event.name}: " if event.name else ""
                self._print(Text(f"  {about}{event.words}", style="yellow"))
            case _:
                pass
        self.live.update(self._table())

    def _ended(self, event: events.JobEnded) -> None:
        self.running.pop(event.job, None)
        self.counts[event.state] = self.counts.get(event.state, 0) + 1
        if event.state == "done":
            self.remaining.finished(event.job, event.seconds)
        else:
            self.remaining.dropped(event.job)
        style = STYLES.get(event.state, "")
        line = Text(f"{MARKS.get(event.state, ' ')} ", style=style)
        line.append(event.name, style="default").append(f"  {duration(event.seconds)}", style="dim")
        self._print(line.append(f"  {printable(event.words)}" if event.words else "", style=style))

    def _print(self, line: Text) -> None:
        self.live.console.print(line, soft_wrap=True)

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="cyan")
        for column, width in COLUMNS:
            table.add_column(column, no_wrap=True, min_width=width)
        table.add_column("job", no_wrap=True)
        room = self.live.console.width - sum(width + 2 for _, width in COLUMNS)
        now = time.monotonic()
        for key, shown in self.running.items():
            elapsed = now - shown.started
            left = self.remaining.of(key, elapsed, shown.done, shown.total)
            steps = f"{shown.done}/{shown.total}" if shown.total else ""
            where = f" on {shown.builder}" if shown.builder else ""
            where = where if len(where) + NAMED <= room else ""
            name = cut(shown.name, room - len(where)) + where
            table.add_row(steps, duration(elapsed), duration(left), shown.phase[:9], Text(name))
        for name, until in self.resting.values():
            wait = f"again in {duration(max(0.0, until - now))}"
            table.add_row("", wait, "", "", Text(cut(name, room - len(wait) + 11)), style="yellow")
        return Group(table, self._summary())

    def _summary(self) -> Text:
        now = time.monotonic()
        going = {key: (now - one.started, one.done, one.total) for key, one in self.running.items()}
        rest = self.remaining.rest(going) if self.remaining.expected else 0.0
        counts = {"done": 0, "running": len(going)} | self.counts
        counts["waiting"] = max(0, len(self.remaining.expected) - len(going))
        words = ", ".join(f"{counts[name]} {name}" for name in ORDER if counts.get(name) or name in ORDER[:3])
        so_far = f"{duration(now - self.began)} so far"
        text = f"{words}; {so_far}, {duration(rest)} left, until about {moment(rest, time.time())}"
        return Text(text, style="dim")


@contextmanager
def watching(plan: BuildPlan, console: Console, *, as_json: bool, slots: int = 1) -> Iterator[Tell]:
    """What shows a run as it goes: JSON when asked for, live on a terminal, lines elsewhere."""
    if as_json:
        yield tell_json
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield LiveView(live, plan, slots).tell
    else:
        yield PlainView(console, {job.key: job.name for job in plan.jobs}).tell


def _promise(event: events.RecipeVerified) -> str:
    """Whether a build is what its name says."""
    return "verified" if event.ok else f"not what its name says: {event.words}"


def _again(event: events.JobRetried) -> str:
    """When and how a job is tried again."""
    if event.cores:
        return f"trying again with {event.cores} cores"
    return f"attempt {event.attempt} in {duration(event.seconds)}"
