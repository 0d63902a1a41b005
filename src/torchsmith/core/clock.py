"""The clock as a value, so that tests need not wait."""

from __future__ import annotations

import time


class Clock:
    """The machine's clock: wall time for records, monotonic time for durations."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
