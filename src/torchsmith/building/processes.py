"""The commands of a run: each read in its thread, all stopped together from any thread; and their logs."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from torchsmith.core.process import ChildProcess
from torchsmith.core.secrets import redactor

POLL_SECONDS = 0.2  # without a line, before a command is looked at again
TAIL_LINES = 400  # of a log that are remembered, for the diagnosis


class Stopped(KeyboardInterrupt):
    """All was stopped before this could start."""


class Processes:
    """What is running; after `stop` nothing starts any more."""

    def __init__(self) -> None:
        self._redact = redactor()
        self._running: set[ChildProcess] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], read: Callable[[str], None], *, both: bool = False
    ) -> int:
        """Run a command, passing on its lines without secrets. Returns its exit code. Raises Stopped."""
        with self._lock:
            if self._stopped:
                raise Stopped
            pipe, dropped = subprocess.PIPE, subprocess.DEVNULL
            output, errors = (pipe, subprocess.STDOUT) if both else (dropped, pipe)
            running = ChildProcess(argv, env=env, stdout=output, stderr=errors)
            self._running.add(running)
        try:
            for line in running.lines(POLL_SECONDS):
                if line is not None:
                    read(self._redact(line))
            return running.wait()
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


class LogFile:
    """Appends to a file as long as that goes well, and remembers the last lines: a full disk takes lines from
    a log, never the build."""

    def __init__(self, path: Path) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._file: TextIO | None = None
        with contextlib.suppress(OSError):
            self._file = path.open("a", encoding="utf-8")
        self.complete = self._file is not None

    def write(self, text: str) -> None:
        self._tail.append(text)
        if self._file is None:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError:
            self.complete = False
            self.close()

    @property
    def lost(self) -> str:
        """The last lines, if the file does not have them."""
        return "" if self.complete else "".join(self._tail)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
