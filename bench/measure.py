"""One row of the table: ours and its rival, run in turn, with the spread of both."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated runs."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.seconds) < 4:
            return (max(self.seconds) - min(self.seconds)) / 2 / self.median
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


@dataclass(frozen=True)
class Row:
    """What was compared, and what it should come to. `better` says whether a small ratio is the good one."""

    what: str
    rival: str
    ours: Timing
    theirs: Timing
    goal: float
    better: str  # "lower": ours / rival at most the goal; "higher": rival / ours at least the goal
    note: str = ""
    unit: Literal["s", "MB"] = "s"  # of both

    @property
    def ratio(self) -> float:
        if self.better == "lower":
            return self.ours.median / self.theirs.median
        return self.theirs.median / self.ours.median

    @property
    def met(self) -> bool:
        return self.ratio <= self.goal if self.better == "lower" else self.ratio >= self.goal


def in_turn(ours: Callable[[], None], theirs: Callable[[], None], repeats: int) -> tuple[Timing, Timing]:
    """Time both, one after the other, so that a slow moment of the machine meets both."""
    ours()
    theirs()
    mine, rivals = [], []
    for _ in range(repeats):
        mine.append(_seconds(ours))
        rivals.append(_seconds(theirs))
    return Timing(tuple(mine)), Timing(tuple(rivals))


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def command(argv: Sequence[str]) -> Callable[[], None]:
    """Running a command, as something to time; it must succeed."""

    def work() -> None:
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return work
