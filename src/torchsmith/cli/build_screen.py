"""A build as it runs: a live table on a terminal, else a line for each event, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec

from torchsmith.building import events
from torchsmith.building.job import OnEvent
from torchsmith.building.plan import BuildPlan
from torchsmith.cli.console import COLUMN_GAP, Foot, Painted, laid_out, paint, write_stderr
from torchsmith.cli.reporter import Terminal, cut
from torchsmith.core.text import counted, duration, printable

MIN_STEP_SHARE = 0.05  # of the steps, before their pace says anything
STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow"}
ORDER = ("done", "running", "waiting", "failed", "skipped")
NAME_COLUMNS = 24  # that a name needs to be unique: CUDA, GPU and instruction set


def write_event(event: events.Event | events.Tick) -> None:
    """One JSON object a line."""
    if not isinstance(event, events.Tick):
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()


def lasting(event: events.Event | events.Tick) -> tuple[str, str]:
    """The line that both a log and a screen keep of an event, and its style; empty for other events."""
    match event:
        case events.JobEnded():
            took = f" in {duration(event.seconds)}" if event.seconds else ""
            detail = f": {event.detail}" if event.detail else ""
            return f"{event.name}: {event.state}{took}{printable(detail)}", STYLES.get(event.state, "")
        case events.JobRetried():
            again = f"attempt {event.attempt} in {duration(event.seconds)}"
            if event.cores:
                again = f"trying again with {counted(event.cores, 'core')}"
            return f"{event.name}: {event.detail}; {again}", "yellow"
        case events.RecipeVerified():
            verdict = "verified" if event.ok else f"verify does not accept it: {event.detail}"
            return f"{event.name}: {verdict}", "green" if event.ok else "red"
        case events.RunNote():
            return (f"{event.name}: {event.detail}" if event.name else event.detail), "yellow"
        case _:
            return "", ""


class PlainView:
    """A line for each thing that a log should keep; a percentage now and then."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self._tenths: dict[str, int] = {}

    def show(self, event: events.Event | events.Tick) -> None:
        if text := lasting(event)[0] or self._text(event):
            write_stderr(text, wrap=False)

    def _text(self, event: events.Event | events.Tick) -> str:
        match event:
            case events.RunStarted():
                waiting = event.counts.get("waiting", 0)
                return counted(waiting, "job") if waiting else ""
            case events.JobStarted():
                expected = f", about {duration(event.expected)}" if event.expected >= 1 else ""
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                return f"{event.name}: started{again}{expected}"
            case events.JobSteps():
                tenth = event.done * 10 // max(event.total, 1)
                if tenth <= self._tenths.get(event.job, 0):
                    return ""
                self._tenths[event.job] = tenth
                return f"{self._name(event.job)}: {event.done} of {counted(event.total, 'step')}"
            case events.JobBuilding() if event.builder:
                return f"{self._name(event.job)}: {event.derivation} on {event.builder}"
            case _:
                return ""

    def _name(self, key: str) -> str:
        return self.names.get(key, key)


@dataclass
class Remaining:
    """What is left of each job, in seconds."""

    expected: dict[str, float]
    slots: int

    def of(self, key: str, elapsed: float = 0.0, done: int = 0, total: int = 0) -> float:
        """Of one job; ninja's steps count for more than any estimate."""
        if total and done >= total * MIN_STEP_SHARE:
            return elapsed * (total - done) / done
        return max(0.0, self.expected.get(key, 0.0) - elapsed)

    def rest(self, running: dict[str, tuple[float, int, int]]) -> float:
        """Of all: the work spread over the slots, and no less than the longest that runs."""
        now = [self.of(key, *progress) for key, progress in running.items()]
        waiting = [self.of(key) for key in self.expected if key not in running]
        return max([(sum(now) + sum(waiting)) / max(1, self.slots), *now, *waiting])


def moment(seconds: float, now: float) -> str:
    """A time of day, with the day if that is not today: `03:40`, `Tue 17 Nov 03:40`."""
    then, today = time.localtime(now + seconds), time.localtime(now)
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if same else "%a %d %b %H:%M", then)


@dataclass
class _Shown:
    name: str
    started: float
    phase: str = ""
    done: int = 0
    total: int = 0
    builder: str = ""


COLUMNS = (("steps", 9), ("elapsed", 11), ("left", 11), ("phase", 9))


@dataclass
class LiveView:
    """A table of what runs, and one line for all of it."""

    foot: Foot
    plan: BuildPlan
    slots: int = 1
    began: float = field(default_factory=time.monotonic)
    running: dict[str, _Shown] = field(default_factory=dict)
    # Names, and when they are tried again.
    resting: dict[str, tuple[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expected = {key: cost.seconds for key, cost in self.plan.expected.items()}
        self.remaining = Remaining(expected, self.slots)

    def show(self, event: events.Event | events.Tick) -> None:
        shown = self.running.get(getattr(event, "job", ""))
        match event:
            case events.JobStarted():
                self.resting.pop(event.job, None)
                self.running[event.job] = _Shown(event.name, time.monotonic())
            case events.JobPhase() if shown:
                shown.phase = event.phase.removesuffix("Phase")
            case events.JobSteps() if shown:
                shown.done, shown.total = event.done, event.total
            case events.JobBuilding() if shown:
                shown.builder = event.builder
            case events.JobEnded():
                self.running.pop(event.job, None)
                self.counts[event.state] = self.counts.get(event.state, 0) + 1
                self.remaining.expected.pop(event.job, None)
            case events.JobRetried():
                self.running.pop(event.job, None)
                self.resting[event.job] = (event.name, time.monotonic() + event.seconds)
            case _:
                pass
        text, style = lasting(event)
        if text:
            self.foot.above(paint(text, style, sys.stderr))
        if self.foot.due or not isinstance(event, events.Tick):
            self.foot.draw(*self.lines())

    def lines(self) -> list[str]:
        """The jobs that run or rest, and the sums."""
        room = self.foot.room - 1 - sum(width + COLUMN_GAP for _, width in COLUMNS)
        now = time.monotonic()
        rows: list[list[Painted]] = [[(name.ljust(width), "cyan") for name, width in (*COLUMNS, ("job", 0))]]
        for key, job in self.running.items():
            elapsed = now - job.started
            left = self.remaining.of(key, elapsed, job.done, job.total)
            steps = f"{job.done}/{job.total}" if job.total else ""
            where = f" on {job.builder}" if job.builder else ""
            where = where if len(where) + NAME_COLUMNS <= room else ""
            name = cut(job.name, room - len(where)) + where
            rows.append([steps, duration(elapsed), duration(left), job.phase[:9], name])
        lines = laid_out(rows, stream=sys.stderr)
        for name, until in self.resting.values():
            wait = f"{'':{COLUMNS[0][1] + COLUMN_GAP}}again in {duration(max(0.0, until - now))}  "
            lines.append(paint(wait + cut(name, self.foot.room - 1 - len(wait)), "yellow", sys.stderr))
        return [*lines, self._summary()]

    def _summary(self) -> str:
        now = time.monotonic()
        going = {key: (now - job.started, job.done, job.total) for key, job in self.running.items()}
        rest = self.remaining.rest(going) if self.remaining.expected else 0.0
        counts = {"done": 0, "running": len(going)} | self.counts
        counts["waiting"] = max(0, len(self.remaining.expected) - len(going))
        summary = ", ".join(
            f"{counts[name]} {name}" for name in ORDER if counts.get(name) or name in ORDER[:3]
        )
        so_far = f"{duration(now - self.began)} so far"
        text = f"{summary}; {so_far}, {duration(rest)} left, until about {moment(rest, time.time())}"
        return paint(text, "dim", sys.stderr)


class BuildTerminal(Terminal):
    """Shows a run: as JSON if requested, else live on a terminal or as lines; its plan with `print_plan`."""

    def __init__(
        self, *, as_json: bool = False, print_plan: Callable[[BuildPlan], None] = lambda plan: None
    ) -> None:
        self.as_json = as_json
        self._print_plan = print_plan
        self._stack = ExitStack()
        self._show: OnEvent = write_event if as_json else lambda event: None

    def __enter__(self) -> BuildTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def planned(self, plan: BuildPlan, slots: int) -> None:
        if self.as_json:
            return
        self._print_plan(plan)
        if plan.problem is not None:
            return
        if sys.stderr.isatty():
            self._show = LiveView(self._stack.enter_context(Foot()), plan, slots).show
        else:
            self._show = PlainView({job.key: job.name for job in plan.jobs}).show

    def event(self, event: events.Event | events.Tick) -> None:
        self._show(event)
