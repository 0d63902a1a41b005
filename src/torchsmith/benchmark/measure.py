"""Measuring two builds in turns: fresh processes every round, and within it turns at each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

from torchsmith.benchmark.statistics import typical
from torchsmith.benchmark.subject import BuildProcess, BuildSubject, Died
from torchsmith.core.problem import Broken

TURNS = 24  # of each build at an operation, within a round
FEWEST_TURNS = 6  # at one that takes long
TURN_SECONDS = 0.002  # what a turn should last
MOST_SECONDS = TURNS * TURN_SECONDS * 2  # what all turns of one build at an operation may last
MOST_CALLS = 5000  # in a turn
FINEST_CLOCK_STEP = TURN_SECONDS / 100  # the coarsest clock that can time a turn
FEWEST_ROUNDS = 2  # of a comparison that was stopped; with fewer it has no result
STARTUP = {"import torch": "import", "CPU time of the import": "import_cpu", "memory after import": "memory"}
FIRST_CALL = {"first CUDA call": "first", "memory after the first CUDA call": "memory"}
FLOAT64_TOLERANCE = 1e-6  # how far two builds' float64 may be apart

TurnClock = Literal["thread", "wall"]
Key = tuple[str, str]  # where it runs (start, cpu, cuda), and what
Turns = tuple[list[float], list[float]]  # of each build, those side by side at the same place


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """How to measure."""

    runs: int
    cores: tuple[int, ...]
    limit: float  # seconds that one answer may take


def clock_for(plan: MeasuringPlan, facts: Sequence[Mapping[str, Any]]) -> TurnClock:
    """On one core the time that a thread ran counts: others may take the core from it in between."""
    fine = all(build["clock_step"] <= FINEST_CLOCK_STEP for build in facts)
    return "thread" if len(plan.cores) == 1 and fine else "wall"


@dataclass(frozen=True, slots=True)
class MeasureFault:
    """Why an operation is left out, and which builds are at fault: A, B, both, or unknown."""

    outcome: Literal["wrong", "failed"]
    detail: str
    builds: tuple[str, ...] = ()


@dataclass
class Measurements:
    """The results: for every key the measures of each build, one per round."""

    values: dict[Key, tuple[list[float], list[float]]] = field(default_factory=dict)
    operations: dict[Key, None] = field(default_factory=dict)  # in the probe's order
    faults: dict[Key, MeasureFault] = field(default_factory=dict)
    facts: list[dict[str, Any]] = field(default_factory=list)  # by each build, about itself
    libraries: list[dict[str, int]] = field(default_factory=list)
    clock: TurnClock = "wall"
    turns: dict[Key, list[Turns]] = field(default_factory=dict)  # of every round, as they were taken

    @property
    def rounds(self) -> int:
        """The number of rounds that counted."""
        return max((len(taken) for taken in self.turns.values()), default=0)

    def add(self, key: Key, taken: Turns) -> None:
        """Add the turns of a round."""
        self.turns.setdefault(key, []).append(taken)
        for own, value in zip(self.values.setdefault(key, ([], [])), paired_times(*taken), strict=True):
            own.append(value)


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """How an operation is timed in a round: turns of each build, and calls in each of them."""

    turns: int
    calls: int


class LostProcess(Exception):
    """An operation ended the process of a build; the message says how."""

    def __init__(self, key: Key, build: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.fault = MeasureFault("failed", f"{build}: {message}", (build,))


def first_in(round_: int) -> int:
    """Which build begins a round: as even as can be, whatever drifts (Thue and Morse's sequence)."""
    return round_.bit_count() % 2


def measure(
    subjects: Sequence[BuildSubject],
    plan: MeasuringPlan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Measurements:
    """Run all rounds, or those until Ctrl-C. The first round warms caches, checks results and is not counted.

    Raises Failed if a build cannot import torch or use a device, KeyboardInterrupt if fewer than
    FEWEST_ROUNDS were measured."""
    results = Measurements()
    plans: dict[Key, TurnPlan] = {}
    done = 0
    with TemporaryDirectory(prefix="torchsmith-") as compiled:
        # a build may contain compiled Python, or be read-only
        fair = [replace(subject, compiled=compiled) for subject in subjects]
        while done <= plan.runs:
            try:
                progress(done, plan.runs + 1)
                values = _round(fair, plan, done, results, plans)
            except KeyboardInterrupt:
                if results.rounds < FEWEST_ROUNDS:
                    raise
                break
            except LostProcess as lost:
                results.faults[lost.key] = lost.fault  # and the round again, without it
                continue
            for key, taken in values.items() if done else ():
                results.add(key, taken)
            done += 1
    progress(done, done)
    for key in results.faults:
        results.values.pop(key, None)
    return results


def _round(
    subjects: Sequence[BuildSubject],
    plan: MeasuringPlan,
    round_: int,
    results: Measurements,
    plans: dict[Key, TurnPlan],
) -> dict[Key, Turns]:
    """Measure one round in a fresh process of each build. Raises LostProcess, Failed."""
    order = (0, 1) if first_in(round_) == 0 else (1, 0)
    values: dict[Key, Turns] = {}
    with ExitStack() as stack:
        processes: dict[int, BuildProcess] = {}
        loaded: dict[int, dict[str, Any]] = {}
        for label in order:
            process = processes[label] = BuildProcess(subjects[label], plan.cores, plan.limit)
            stack.callback(process.close)
            loaded[label] = _load(process, len(plan.cores))
        facts = [loaded[0], loaded[1]]
        results.facts, results.clock = facts, clock_for(plan, facts)
        for name, field_name in STARTUP.items():
            values["start", name] = ([facts[0][field_name]], [facts[1][field_name]])
        devices = ["cpu", *(["cuda"] if all(build["gpu"] for build in facts) else [])]
        for device in devices:
            keys, first = _open(processes, device, order, results)
            if device != "cpu":
                for name, field_name in FIRST_CALL.items():
                    values["start", name] = ([first[0][field_name]], [first[1][field_name]])
            if round_ == 0:
                _check(processes, keys, results)
                plans |= _calibrate(processes, keys, results)
            else:
                timed = {key: plans[key] for key in keys if key in plans}
                values |= _take_turns(processes, timed, order, results.clock)
        if round_ == 0:
            results.libraries = [processes[label].ask("loaded").get("libraries", {}) for label in (0, 1)]
    return values


def _load(process: BuildProcess, threads: int) -> dict[str, Any]:
    try:
        answer = process.ask("load", threads=threads)
    except Died as died:
        answer = {"failed": str(died)}
    if "failed" in answer:
        path = process.subject.path
        raise Broken(
            f"{process.subject.label} cannot be compared: import torch fails: {answer['failed']}",
            hint=f"torchsmith test {path} says more" if path.is_dir() else f"{path} needs a torch",
        )
    return answer


def _open(
    processes: dict[int, BuildProcess], device: str, order: Sequence[int], results: Measurements
) -> tuple[list[Key], list[dict[str, Any]]]:
    """Prepare the operations on a device in both builds. Returns those that both have and that did not
    fail before, and the answer of each build."""
    opened = {
        label: _ask(processes[label], ("start", f"open {device}"), "open", device=device) for label in order
    }
    for label, answer in opened.items():
        if "failed" in answer:
            why = f"{processes[label].subject.label}: {answer['failed']}"
            raise Broken(f"{device} cannot be used: {why}")
    keys = [(device, name) for name in opened[0]["operations"] if name in opened[1]["operations"]]
    results.operations |= dict.fromkeys(keys)
    return [key for key in keys if key not in results.faults], [opened[0], opened[1]]


def _ask(process: BuildProcess, key: Key, do: str, **arguments: Any) -> dict[str, Any]:
    try:
        return process.ask(do, **arguments)
    except Died as died:
        if key[0] == "start":
            raise Broken(f"{process.subject.label}: {died}") from None
        raise LostProcess(key, process.subject.label, str(died)) from None


def _check(processes: dict[int, BuildProcess], keys: Sequence[Key], results: Measurements) -> None:
    """Compare results with float64, and both builds' float64 with each other; wrong ones are not timed."""
    for key in keys:
        device, name = key
        answers = [_ask(processes[label], key, "check", device=device, name=name) for label in (0, 1)]
        labelled = list(zip("AB", answers, strict=True))
        if failed := {
            label: f"{label}: {answer['failed']}" for label, answer in labelled if "failed" in answer
        }:
            results.faults[key] = MeasureFault("failed", "; ".join(failed.values()), tuple(failed))
            continue
        wrong = {
            label: f"{label} differs from float64 by {answer['error']:.2g}, more than {answer['limit']:g}"
            for label, answer in labelled
            if not answer["right"]
        }
        if wrong:
            results.faults[key] = MeasureFault("wrong", "; ".join(wrong.values()), tuple(wrong))
        elif not _agree(answers[0]["sample"], answers[1]["sample"]):
            detail = "the builds' results in float64 differ from each other"
            results.faults[key] = MeasureFault("wrong", detail)


def _agree(first: Sequence[float], second: Sequence[float]) -> bool:
    scale = max(map(abs, (*first, *second)), default=1.0) or 1.0
    return len(first) == len(second) and all(
        abs(left - right) <= FLOAT64_TOLERANCE * scale for left, right in zip(first, second, strict=True)
    )


def _calibrate(
    processes: dict[int, BuildProcess], keys: Sequence[Key], results: Measurements
) -> dict[Key, TurnPlan]:
    """How many calls make a turn: the same for both builds, by the slower one."""
    plans = {}
    for key in keys:
        if key in results.faults:
            continue
        slow = max(_timed(processes[label], key, 3, results.clock) for label in (0, 1))
        calls = max(1, min(MOST_CALLS, round(TURN_SECONDS / slow)))
        plans[key] = TurnPlan(min(TURNS, max(FEWEST_TURNS, int(MOST_SECONDS / (calls * slow)))), calls)
    return plans


def _take_turns(
    processes: dict[int, BuildProcess], plans: Mapping[Key, TurnPlan], order: Sequence[int], clock: TurnClock
) -> dict[Key, Turns]:
    """Each build's turns at each operation; who begins changes from turn to turn."""
    taken: dict[Key, Turns] = {key: ([], []) for key in plans}
    for turn in range(max((plan.turns for plan in plans.values()), default=0)):
        for key in (key for key, plan in plans.items() if turn < plan.turns):
            for label in order if turn % 2 == 0 else reversed(order):
                taken[key][label].append(_timed(processes[label], key, plans[key].calls, clock))
    return taken


def paired_times(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """One time for each build, from turns side by side: what slows a moment down slows both of its turns, so
    that their ratio is steadier than the best turn of each."""
    ratio = typical([log(left / right) for left, right in zip(a, b, strict=True)])
    middle = median([(log(left) + log(right)) / 2 for left, right in zip(a, b, strict=True)])
    return exp(middle + ratio / 2), exp(middle - ratio / 2)


def _timed(process: BuildProcess, key: Key, count: int, clock: TurnClock) -> float:
    device, name = key
    own = clock == "thread" and device == "cpu"
    answer = _ask(process, key, "time", device=device, name=name, count=count, cpu_clock=own)
    if "failed" in answer:
        raise LostProcess(key, process.subject.label, str(answer["failed"]))
    return max(float(answer["seconds"]), 1e-12)
