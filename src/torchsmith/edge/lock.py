"""One run at a time: an advisory lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from torchsmith.edge.problem import Busy, CannotWrite


@contextmanager
def exclusive(path: Path, *, what: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path`; a Problem names `what` when another process has it."""
    with _opened(path) as file:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.seek(0)
                    holder = file.read().strip() or "unknown"
                    raise Busy(
                        f"{what} is in use by another torchsmith (process {holder})",
                        hint="wait for it to end, then run the command again",
                    ) from None
                time.sleep(0.05)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _opened(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+")
    except OSError as error:
        hint = "make the folder writable for you (the cache: set TORCHSMITH_CACHE to another one)"
        raise CannotWrite(f"cannot write {path}: {error.strerror}", hint=hint) from error
