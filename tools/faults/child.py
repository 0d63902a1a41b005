"""A torchsmith that fails at its n-th write: `python -m tools.faults.child ROOT FAULT N LOG -- WORDS`.

Python tells an audit hook of each file that is opened for writing, renamed or removed, before that happens:
the place to count writes below ROOT, and to strike. FAULT is none, kill, term, eio or enospc.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
import threading
import time

WRITES = {"os.rename": (0, 1), "os.remove": (0,), "os.mkdir": (0,), "os.rmdir": (0,), "os.truncate": (0,)}


class Striker:
    """Counts writes, and at one of them strikes."""

    def __init__(self, root: str, fault: str, at: int, log: str) -> None:
        self.root, self.fault, self.at = root, fault, at
        self.count = 0
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            flags = args[2] if isinstance(args[2], int) else 0
            places: tuple[object, ...] = args[:1] if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else ()
        else:
            places = tuple(args[index] for index in WRITES.get(event, ()))
        named = [os.fspath(one) for one in places if isinstance(one, (str, os.PathLike))]
        if not any(self.root in os.path.abspath(one) for one in named):
            return
        self.count += 1
        os.pwrite(self.log, b"%d" % self.count, 0)
        if self.count == self.at:
            self.strike()

    def strike(self) -> None:
        if self.fault in ("eio", "enospc"):
            number = errno.EIO if self.fault == "eio" else errno.ENOSPC
            raise OSError(number, os.strerror(number))
        if self.fault in ("kill", "term"):
            number = signal.SIGKILL if self.fault == "kill" else signal.SIGTERM
            if random.random() < 0.5:  # now, or within the milliseconds in which the next bytes are written
                os.kill(os.getpid(), number)
            threading.Thread(target=_soon, args=(number,), daemon=True).start()


def _soon(number: int) -> None:
    time.sleep(random.uniform(0.0, 0.003))
    os.kill(os.getpid(), number)


def main() -> None:
    """Install the hook, then be torchsmith."""
    root, fault, at, log, _, *words = sys.argv[1:]
    from torchsmith.cli.main import run as torchsmith

    sys.addaudithook(Striker(root, fault, int(at), log).hook)
    sys.argv = ["torchsmith", *words]
    torchsmith()


if __name__ == "__main__":
    main()
