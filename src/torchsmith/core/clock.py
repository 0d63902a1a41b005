"""The clock as a value, so that what depends on time can be tested without waiting."""

from __future__ import annotations

import time


class Clock:
    """The machine's clock: wall time for records, monotonic time for durations. Tests have others."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
