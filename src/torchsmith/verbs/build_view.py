"""A build for people and programs: its plan, a live table or plain lines as it goes, and how it ended."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from torchsmith.api.build_plan import BuildPlanReport
from torchsmith.api.building import BuildRequest
from torchsmith.building import events
from torchsmith.building.job import Tell
from torchsmith.building.report import BuildReport
from torchsmith.cli.console import COLUMN_GAP, Foot, Painted, Printer, command, laid_out, paint, tell, write
from torchsmith.core.text import counted, duration, grouped, printable, some_of
from torchsmith.verbs.diagnose import print_diagnosis
from torchsmith.verbs.progress import Terminal
from torchsmith.verbs.remaining import Remaining, cut, moment
from torchsmith.workspace.load import open_workspace

MAX_JOBS_LISTED = 40  # jobs of a plan
MAX_SHOWN = 6  # results, and recipes above a job that failed
STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow"}
ORDER = ("done", "running", "waiting", "failed", "skipped")
NAME_COLUMNS = 24  # that a name needs to be unique: CUDA, GPU and instruction set
MARKS = {"done": "✓", "failed": "✗", "skipped": "-"}


def tell_json(event: events.Event | events.Tick) -> None:
    """One JSON object a line."""
    if not isinstance(event, events.Tick):
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        sys.stdout.flush()


class PlainView:
    """A line for each thing that a log should keep; a percentage now and then."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self._tenths: dict[str, int] = {}

    def tell(self, event: events.Event | events.Tick) -> None:
        text = self._text(event)
        if text:
            tell(text, whole=True)

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
            case events.JobRetried():
                return f"{event.name}: {event.words}; {_again(event)}"
            case events.JobEnded():
                took = f" in {duration(event.seconds)}" if event.seconds else ""
                detail = f": {event.words}" if event.words else ""
                return f"{event.name}: {event.state}{took}{detail}"
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

    foot: Foot
    plan: BuildPlanReport
    slots: int = 1
    began: float = field(default_factory=time.monotonic)
    running: dict[str, _Shown] = field(default_factory=dict)
    # Names, and when they are tried again.
    resting: dict[str, tuple[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expected = {job.key: job.expected.seconds for job in self.plan.jobs}
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
                self._print(f"↻ {event.name}: {event.words}; {_again(event)}", "yellow")
            case events.RecipeVerified():
                self._print(f"  {event.name}: {_promise(event)}", "green" if event.ok else "red")
            case events.Remark():
                about = f"{event.name}: " if event.name else ""
                self._print(f"  {about}{event.words}", "yellow")
            case _:
                pass
        if self.foot.due or not isinstance(event, events.Tick):
            self.foot.draw(*self.lines())

    def _ended(self, event: events.JobEnded) -> None:
        self.running.pop(event.job, None)
        self.counts[event.state] = self.counts.get(event.state, 0) + 1
        if event.state == "done":
            self.remaining.finished(event.job, event.seconds)
        else:
            self.remaining.dropped(event.job)
        style = STYLES.get(event.state, "")
        mark = paint(f"{MARKS.get(event.state, ' ')} ", style, sys.stderr)
        took = paint(f"  {duration(event.seconds)}", "dim", sys.stderr)
        why = paint(f"  {printable(event.words)}", style, sys.stderr) if event.words else ""
        self._print(f"{mark}{event.name}{took}{why}")

    def _print(self, line: str, style: str = "") -> None:
        self.foot.above(paint(line, style, sys.stderr))

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
    """A run as it goes: JSON when asked for, live on a terminal, lines elsewhere."""

    def __init__(self, *, as_json: bool = False, plan: bool = True) -> None:
        self.as_json = as_json
        self._shows_plan = plan and not as_json
        self._stack = ExitStack()
        self._show: Tell = tell_json if as_json else lambda event: None

    def __enter__(self) -> BuildTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def planned(self, plan: BuildPlanReport, slots: int) -> None:
        if self._shows_plan:
            print_plan(plan, tell)
        if plan.problem is not None or self.as_json:
            return
        if sys.stderr.isatty():
            self._show = LiveView(self._stack.enter_context(Foot()), plan, slots).tell
        else:
            self._show = PlainView({job.key: job.name for job in plan.jobs}).tell

    def event(self, event: events.Event | events.Tick) -> None:
        self._show(event)


def print_plan(plan: BuildPlanReport, line: Printer = write) -> None:
    """A row a job, then the sums."""
    stream = sys.stdout if line is write else sys.stderr
    users = Counter(need for job in plan.jobs for need in job.needs)
    if plan.jobs:
        line("   hours   memory     disk  job (~: a guess)", "cyan")
    # What was requested comes first, and of the rest what takes longest.
    jobs = sorted(plan.jobs, key=lambda job: (not job.recipes, 0 if job.recipes else -job.expected.seconds))
    for job in jobs[:MAX_JOBS_LISTED]:
        cost = job.expected
        hours, memory, disk = (
            f"{'~' if name in cost.guesses else ''}{figure}"
            for name, figure in (
                ("seconds", f"{cost.seconds / 3600:.2f}"),
                ("memory_gb", f"{max(cost.memory_gb, 1):.0f}"),
                ("build_gb", f"{max(cost.build_gb, 1):.0f}"),
            )
        )
        unknown = cost.basis == "not estimated"
        hours = "?" if unknown else hours
        facts = [
            f"{job.builds} builds" if job.builds > 1 else "",
            counted(cost.steps, "step") if cost.steps else "",
            job.system,
            f"needed by {users[job.name]} jobs" if users[job.name] > 1 else "",
            cost.basis if unknown else f"by {cost.basis}" if cost.basis != "a guess" else "",
        ]
        about = paint(f"  {', '.join(filter(None, facts))}", "dim", stream)
        line(f"{hours:>8} {memory:>5} GB {disk:>5} GB  {job.name}{about}")
    if len(plan.jobs) > MAX_JOBS_LISTED:
        line(f"… and {counted(len(plan.jobs) - MAX_JOBS_LISTED, 'more job')}", "dim")
    to_build = sum(len(job.recipes) for job in plan.jobs)
    to_fetch = f" ({plan.download_mib:.0f} MiB to fetch)" if plan.fetched else ""
    line(
        f"{counted(len(plan.recipes), 'recipe')}: {to_build} to build, {len(plan.present)} in the store, "
        f"{len(plan.fetched)} in a binary cache{to_fetch}"
    )
    print_broken({recipe.name: recipe.why for recipe in plan.broken}, line)
    if plan.jobs:
        _print_sums(plan, line)
    if plan.own_store:
        line(
            f"you may not use the machine's Nix store: results go to {plan.own_store}, where verify reads"
            " them, but cannot be imported (torchsmith doctor says what to change)",
            "yellow",
        )


def _print_sums(plan: BuildPlanReport, line: Printer) -> None:
    if plan.builds_below:
        counts = f"{plan.own_builds} of {counted(plan.builds_below, 'build')}"
        are = "is" if plan.own_builds == 1 else "are"
        line(f"{counts} below {are} this workspace's own; the public cache of nixpkgs can have the others")
    costs = [job.expected for job in plan.jobs]
    if cached := sum(cost.cached_seconds for cost in costs):
        line(f"a compile cache saves {duration(cached)} of that, if all builders share one")
    if guessed := sum(bool(cost.guesses) for cost in costs):
        line(f"guesses stand in the costs of {counted(guessed, 'job')}; finished builds replace them", "dim")
    scratch = sum(sorted((cost.build_gb for cost in costs), reverse=True)[: plan.share.jobs])
    known = [cost.seconds for cost in costs if cost.basis != "not estimated"]
    without = f" without the {len(costs) - len(known)} not estimated" if len(known) < len(costs) else ""
    line(
        f"{counted(len(plan.jobs), 'job')}, {duration(sum(known))} of work one after the other{without};"
        f" {plan.share.jobs} at once with {counted(plan.share.cores, 'core')} each; "
        f"{sum(cost.store_gb for cost in costs):.0f} GB of store, {scratch:.0f} GB to build in, "
        f"{plan.per_core_gb:.1f} GB of memory for each compiler"
    )


def print_broken(broken: Mapping[str, str], line: Printer = write) -> None:
    """Recipes that do not evaluate; the same reason is told once."""
    for why, names in grouped((why, name) for name, why in broken.items()).items():
        line(f"✗ {some_of(names)}: {why}", "red")


def print_end(report: BuildReport, request: BuildRequest) -> None:
    """Failures with their causes, what is there now, and what to do with it."""
    for name, diagnosis in report.failed.items():
        print_diagnosis(diagnosis, name, tell)
        if users := report.above.get(name):
            tell(paint("  for    ", "cyan", sys.stderr) + some_of(users, MAX_SHOWN))
        tell(f"  {command('log', name, workspace=request.workspace)}", "dim", whole=True)
    if report.skipped:
        tell(f"not tried, because what they need failed: {', '.join(report.skipped)}")
    for name, why in report.wrong.items():
        tell(f"{name} is built, but verify does not accept it: {why}", "red")
    settled = counted(len(report.settled), "recipe")
    there = f"; {settled} there already or fetched" if report.settled else ""
    tell(f"{len(report.done)} of {counted(report.jobs, 'job')} done{there}")
    if report.results:
        _print_results(report.results, request)
    if report.state == "stopped":
        tell(f"stopped; {command('build', '--resume', workspace=request.workspace)} goes on")


def _print_results(results: Mapping[str, Path], request: BuildRequest) -> None:
    """Where builds are, and what is done with them next."""
    tell("results, kept from garbage collection:")
    for path in list(results.values())[:MAX_SHOWN]:
        tell(f"  {path} -> {path.readlink()}" if path.is_symlink() else f"  {path}", whole=True)
    first, place = next(iter(results.items()))
    if len(results) > MAX_SHOWN:
        tell(f"  and {len(results) - MAX_SHOWN} more in {place.parent}", whole=True)
    # Of several, publish tells itself which are ready.
    publish = [["publish", *(results if len(results) == 1 else ())]]
    org = open_workspace(request.workspace).settings.org
    test = [["test", first]] if place.is_symlink() else []  # in a store of torchsmith's own nothing runs
    steps = [["verify", first], *test, *(publish if org else ())]
    steps = steps[request.verify :]
    if steps:
        tell("next:")
    for step in steps:
        tell(f"  {command(*step, workspace=request.workspace)}", whole=True)


def _promise(event: events.RecipeVerified) -> str:
    """Whether a build is proved to be what its name says."""
    return "verified" if event.ok else f"verify does not accept it: {event.words}"


def _again(event: events.JobRetried) -> str:
    """When and how a job is tried again."""
    if event.cores:
        return f"trying again with {counted(event.cores, 'core')}"
    return f"attempt {event.attempt} in {duration(event.seconds)}"
