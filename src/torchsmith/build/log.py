"""A job's log: a full disk takes lines from it, never the build."""

from __future__ import annotations

import contextlib
from collections import deque
from pathlib import Path
from typing import TextIO

TAIL = 400  # lines that are remembered, for the diagnosis


class LogFile:
    """Appends to a file as long as that goes well, and remembers the last lines."""

    def __init__(self, path: Path) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._file: TextIO | None = None
        with contextlib.suppress(OSError):
            self._file = path.open("a", encoding="utf-8")
        self.whole = self._file is not None

    def write(self, text: str) -> None:
        self._tail.append(text)
        if self._file is None:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError:
            self.whole = False
            self.close()

    @property
    def lost(self) -> str:
        """The last lines, where the file does not hold them."""
        return "" if self.whole else "".join(self._tail)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
