"""How long a run still takes: learnt from the steps of what runs, from what has finished, and the slots."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from torchsmith.cli.terminal import cut as cut

MIN_STEP_SHARE = 0.05  # of the steps, before their pace says anything


@dataclass
class Remaining:
    """What is left of each job, in seconds; finished siblings correct what is expected of the others."""

    expected: dict[str, float]
    packages: dict[str, str]
    slots: int
    ratios: dict[str, list[float]] = field(default_factory=dict)

    def finished(self, key: str, seconds: float) -> None:
        """A job is done, and took this long."""
        expected = self.expected.pop(key, 0.0)
        if expected > 0 and seconds > 0:
            self.ratios.setdefault(self.packages.get(key, ""), []).append(seconds / expected)

    def dropped(self, key: str) -> None:
        """A job failed or was skipped."""
        self.expected.pop(key, None)

    def of(self, key: str, elapsed: float = 0.0, done: int = 0, total: int = 0) -> float:
        """Of one job; ninja's steps count for more than any estimate."""
        if total and done >= total * MIN_STEP_SHARE:
            return elapsed * (total - done) / done
        from statistics import median  # many commands show progress, and few come here

        learnt = self.ratios.get(self.packages.get(key, ""), [])
        return max(0.0, self.expected.get(key, 0.0) * (median(learnt) if learnt else 1.0) - elapsed)

    def rest(self, running: dict[str, tuple[float, int, int]]) -> float:
        """Of all: the work spread over the slots, and no less than the longest that runs."""
        now = [self.of(key, *progress) for key, progress in running.items()]
        waiting = [self.of(key) for key in self.expected if key not in running]
        return max([(sum(now) + sum(waiting)) / max(1, self.slots), *now, *waiting])


def moment(seconds: float, now: float) -> str:
    """A time of day, with the day where that is not today: `03:40`, `Tue 17 Nov 03:40`."""
    then, today = time.localtime(now + seconds), time.localtime(now)
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if same else "%a %d %b %H:%M", then)
