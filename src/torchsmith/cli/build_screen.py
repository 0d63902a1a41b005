"""A build as it runs: a line for each thing that a log should keep, or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from torchsmith.building import events
from torchsmith.building.job import OnEvent
from torchsmith.building.plan import BuildPlan
from torchsmith.cli.console import write_out, write_stderr
from torchsmith.cli.reporter import Terminal
from torchsmith.core.text import counted, duration, printable

STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow"}


def write_event(event: events.Event) -> None:
    """One JSON object a line."""
    write_out(msgspec.json.encode(event).decode() + "\n", flush=True)


class BuildLog:
    """A line for each thing that a log should keep; a percentage now and then."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self._tenths: dict[str, int] = {}

    def show(self, event: events.Event) -> None:
        text, style = self._line(event)
        if text:
            write_stderr(text, style, wrap=False)

    def _line(self, event: events.Event) -> tuple[str, str]:
        """The line of an event, and its style; empty for one without."""
        match event:
            case events.RunStarted():
                waiting = event.counts.get("waiting", 0)
                return (counted(waiting, "job") if waiting else ""), ""
            case events.JobStarted():
                expected = f", about {duration(event.expected)}" if event.expected >= 1 else ""
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                return f"{event.name}: started{again}{expected}", ""
            case events.JobSteps():
                tenth = event.done * 10 // max(event.total, 1)
                if tenth <= self._tenths.get(event.job, 0):
                    return "", ""
                self._tenths[event.job] = tenth
                return (
                    f"{self.names[event.job]}: {event.done} of {counted(event.total, 'step')}",
                    "",
                )
            case events.JobBuilding() if event.builder:
                return f"{self.names[event.job]}: {event.derivation} on {event.builder}", ""
            case events.JobEnded():
                took = f" in {duration(event.seconds)}" if event.seconds else ""
                detail = f": {event.detail}" if event.detail else ""
                return f"{event.name}: {event.state}{took}{printable(detail)}", STYLES[event.state]
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


class BuildTerminal(Terminal):
    """Shows a run as JSON if requested, else as lines; its plan with `print_plan`."""

    def __init__(
        self, *, as_json: bool = False, print_plan: Callable[[BuildPlan], None] = lambda plan: None
    ) -> None:
        self.as_json = as_json
        self._print_plan = print_plan
        self._show: OnEvent = write_event if as_json else lambda event: None

    def planned(self, plan: BuildPlan) -> None:
        if not self.as_json:
            self._print_plan(plan)
            self._show = BuildLog({job.key: job.name for job in plan.jobs}).show

    def event(self, event: events.Event) -> None:
        self._show(event)
