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
from torchsmith.core.problem import Exit, Failed

TURNS = 24  # of each build at an operation, within a round
FEWEST_TURNS = 6  # at one that takes long
TURN_SECONDS = 0.002  # what a turn should last
LONG = TURNS * TURN_SECONDS * 2  # what all turns of one build at an operation may last
MOST_CALLS = 5000  # in a turn
FINE = TURN_SECONDS / 100  # the step of a clock that tells turns apart
FEWEST = 2  # rounds that can be judged at all, of a comparison that was stopped
STARTS = {"import torch": "import", "CPU time of the import": "import_cpu", "memory after import": "memory"}
AGREE = 1e-6  # how far two builds' float64 may be apart

TurnClock = Literal["thread", "wall"]
Key = tuple[str, str]  # where it runs (start, cpu, cuda), and what
Turns = tuple[list[float], list[float]]  # of each build, those side by side at the same place


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """How to measure."""

    runs: int
    cores: tuple[int, ...]
    limit: float  # seconds that one answer may take
    turns: int = TURNS


def clock_for(way: MeasuringPlan, told: Sequence[Mapping[str, Any]]) -> TurnClock:
    """On one core the time that a thread ran counts: others may take the core from it in between."""
    fine = all(one["clock_step"] <= FINE for one in told)
    return "thread" if len(way.cores) == 1 and fine else "wall"


@dataclass
class Measurements:
    """What came of it: for every key the measures of each build, a round each."""

    values: dict[Key, tuple[list[float], list[float]]] = field(default_factory=dict)
    kinds: dict[Key, str] = field(default_factory=dict)
    wrong: dict[Key, str] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)  # by each build, about itself
    libraries: list[dict[str, int]] = field(default_factory=list)
    clock: TurnClock = "wall"
    turns: dict[Key, list[Turns]] = field(default_factory=dict)  # of every round, as they were taken

    @property
    def rounds(self) -> int:
        """How many rounds counted."""
        return max((len(taken) for taken in self.turns.values()), default=0)

    def add(self, key: Key, taken: Turns) -> None:
        """A round more."""
        self.turns.setdefault(key, []).append(taken)
        for own, value in zip(self.values.setdefault(key, ([], [])), settled(*taken), strict=True):
            own.append(value)

    def drop_failed(self) -> None:
        for key in self.failed.keys() | self.wrong.keys():
            self.values.pop(key, None)


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """How an operation is timed in a round: turns of each build, and calls in each of them."""

    turns: int
    calls: int


class LostProcess(Exception):
    """An operation that ended a process."""

    def __init__(self, key: Key, words: str) -> None:
        super().__init__(words)
        self.key, self.words = key, words


def first_in(round_: int) -> int:
    """Which build begins a round: as even as can be, whatever drifts (Thue and Morse's sequence)."""
    return round_.bit_count() % 2


def measure(
    subjects: Sequence[BuildSubject],
    way: MeasuringPlan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Measurements:
    """All rounds, or those until Ctrl-C; the first one warms caches, checks results and is not counted."""
    found = Measurements()
    plans: dict[Key, TurnPlan] = {}
    done = 0
    with TemporaryDirectory(prefix="torchsmith-") as bytecode:
        # one build may come with its Python compiled, another may lie where it cannot be kept
        fair = [replace(subject, bytecode=bytecode) for subject in subjects]
        while done <= way.runs:
            try:
                progress(done, way.runs + 1)
                values = _round(fair, way, done, found, plans)
            except KeyboardInterrupt:
                if found.rounds < FEWEST:
                    raise
                break
            except LostProcess as lost:
                found.failed[lost.key] = lost.words  # and the round again, without it
                continue
            for key, taken in values.items() if done else ():
                found.add(key, taken)
            done += 1
    progress(done, done)
    found.drop_failed()
    return found


def _round(
    subjects: Sequence[BuildSubject],
    way: MeasuringPlan,
    round_: int,
    found: Measurements,
    plans: dict[Key, TurnPlan],
) -> dict[Key, Turns]:
    """One round: a fresh process of each build, and what it measured."""
    order = (0, 1) if first_in(round_) == 0 else (1, 0)
    values: dict[Key, Turns] = {}
    with ExitStack() as stack:
        processes: dict[int, BuildProcess] = {}
        loaded: dict[int, dict[str, Any]] = {}
        for label in order:
            process = processes[label] = BuildProcess(subjects[label], way.cores, way.limit)
            stack.callback(process.close)
            loaded[label] = _load(process, len(way.cores))
        told = [loaded[0], loaded[1]]
        if round_ == 0:
            found.told, found.clock = told, clock_for(way, told)
        for name, word in STARTS.items():
            values["start", name] = ([told[0][word]], [told[1][word]])
        devices = ["cpu", *(["cuda"] if all(one["gpu"] for one in told) else [])]
        for device in devices:
            keys, first = _open(processes, device, order, found)
            if device != "cpu":
                values["start", "first CUDA call"] = ([first[0]], [first[1]])
            if round_ == 0:
                _check(processes, keys, found)
                plans |= _calibrate(processes, keys, way.turns, found)
            else:
                timed = {key: plans[key] for key in keys if key in plans}
                values |= _take_turns(processes, timed, order, found.clock)
        if round_ == 0:
            found.libraries = [processes[label].ask("loaded").get("libraries", {}) for label in (0, 1)]
    return values


def _load(process: BuildProcess, threads: int) -> dict[str, Any]:
    try:
        answer = process.ask("load", threads=threads)
    except Died as died:
        answer = {"failed": str(died)}
    if "failed" in answer:
        path = process.of.path
        raise Failed(
            f"{process.of.label} cannot be compared: import torch fails: {answer['failed']}",
            hint=f"torchsmith test {path} says more" if path.is_dir() else f"{path} needs a torch",
            exit=Exit.NOT_RIGHT,
        )
    return answer


def _open(
    processes: dict[int, BuildProcess], device: str, order: Sequence[int], found: Measurements
) -> tuple[list[Key], list[float]]:
    """Lay operations out on a device in both; those that did not fail, and how long the first call took."""
    opened = {
        label: _asked(processes[label], ("start", f"open {device}"), "open", device=device) for label in order
    }
    why = next(
        (f"{processes[label].of.label}: {one['failed']}" for label, one in opened.items() if "failed" in one),
        "",
    )
    if why:
        raise Failed(f"{device} cannot be used: {why}", exit=Exit.NOT_RIGHT)
    kinds: dict[str, str] = opened[0]["operations"]
    keys = [(device, name) for name in kinds]
    found.kinds.update({(device, name): kind for name, kind in kinds.items()})
    left = [key for key in keys if key not in found.failed and key not in found.wrong]
    return left, [opened[label]["first"] for label in (0, 1)]


def _asked(process: BuildProcess, key: Key, do: str, **words: Any) -> dict[str, Any]:
    try:
        return process.ask(do, **words)
    except Died as died:
        if key[0] == "start":
            raise Failed(f"{process.of.label}: {died}", exit=Exit.NOT_RIGHT) from None
        raise LostProcess(key, f"{process.of.label}: {died}") from None


def _check(processes: dict[int, BuildProcess], keys: Sequence[Key], found: Measurements) -> None:
    """Results against float64, each build's own and both against each other; what is wrong is not timed."""
    for key in keys:
        device, name = key
        answers = [_asked(processes[label], key, "check", device=device, name=name) for label in (0, 1)]
        failed = [f"{'AB'[label]}: {one['failed']}" for label, one in enumerate(answers) if "failed" in one]
        if failed:
            found.failed[key] = "; ".join(failed)
            continue
        words = [
            f"{'AB'[label]} differs from float64 by {one['error']:.2g}, more than {one['limit']:g}"
            for label, one in enumerate(answers)
            if not one["right"]
        ]
        if not words and not _agree(answers[0]["sample"], answers[1]["sample"]):
            words = ["the builds' results in float64 differ from each other"]
        if words:
            found.wrong[key] = "; ".join(words)


def _agree(one: Sequence[float], other: Sequence[float]) -> bool:
    scale = max(map(abs, (*one, *other)), default=1.0) or 1.0
    return len(one) == len(other) and all(
        abs(left - right) <= AGREE * scale for left, right in zip(one, other, strict=True)
    )


def _calibrate(
    processes: dict[int, BuildProcess], keys: Sequence[Key], turns: int, found: Measurements
) -> dict[Key, TurnPlan]:
    """How many calls make a turn: the same for both builds, by the slower one."""
    plans = {}
    for key in keys:
        if key in found.failed or key in found.wrong:
            continue
        slow = max(_timed(processes[label], key, 3, found.clock) for label in (0, 1))
        calls = max(1, min(MOST_CALLS, round(TURN_SECONDS / slow)))
        plans[key] = TurnPlan(min(turns, max(FEWEST_TURNS, int(LONG / (calls * slow)))), calls)
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


def settled(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """One time for each build, from turns side by side: what slows a moment down slows both of its turns, so
    that their ratio says more than the best turn of each."""
    ratio = typical([log(one / other) for one, other in zip(a, b, strict=True)])
    middle = median([(log(one) + log(other)) / 2 for one, other in zip(a, b, strict=True)])
    return exp(middle + ratio / 2), exp(middle - ratio / 2)


def _timed(process: BuildProcess, key: Key, count: int, clock: TurnClock) -> float:
    device, name = key
    own = clock == "thread" and device == "cpu"
    answer = _asked(process, key, "time", device=device, name=name, count=count, cpu_clock=own)
    if "failed" in answer:
        raise LostProcess(key, f"{process.of.label}: {answer['failed']}")
    return max(float(answer["seconds"]), 1e-12)
