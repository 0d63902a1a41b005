"""Commands that a run has started: listened to from their threads, ended together from any."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torchsmith.edge.process import Running

TICK = 0.2  # seconds without a line after which a command is looked at again


class Stopped(KeyboardInterrupt):
    """All was stopped before this could start."""


class Processes:
    """What is running; after `stop` nothing starts any more."""

    def __init__(self) -> None:
        self._running: set[Running] = set()
        self._lock = threading.Lock()
        self._stopped = False

    @contextmanager
    def started(
        self, argv: Sequence[str], env: Mapping[str, str], *, both: bool = False
    ) -> Iterator[Running]:
        """A command, ended with its block."""
        with self._lock:
            if self._stopped:
                raise Stopped
            running = Running(argv, env=env, both=both)
            self._running.add(running)
        try:
            yield running
        finally:
            running.end()
            with self._lock:
                self._running.discard(running)

    def stop(self) -> None:
        """Interrupt everything."""
        with self._lock:
            self._stopped = True
            for running in self._running:
                running.interrupt()
