"""Running a program that is not trusted: its words are bounded, its leavings are not waited for."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from torchsmith.core.process import Finished, end_group, spawn

MOST_SAID = 8 << 20  # on stdout; the rest is dropped
LAST_WORDS = 64 << 10  # kept of stderr
TICK = 0.05  # seconds between two looks whether it has ended
PIECE = 1 << 16
PIPE_HOLDS = 2 << 20  # two pipes, each as large as they can be made


def watch(argv: Sequence[str], *, timeout: float, env: Mapping[str, str]) -> Finished:
    """Run a program to its own end, whoever still holds its pipes; then its whole process group is ended."""
    start = time.monotonic()
    pipe = subprocess.PIPE
    child = spawn(argv, cwd="/", env=dict(env), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    assert child.stdout
    assert child.stderr
    said, words = bytearray(), bytearray()
    try:
        with child.stdout, child.stderr, selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ, (said, MOST_SAID))
            selector.register(child.stderr, selectors.EVENT_READ, (words, -LAST_WORDS))
            while not (ended := _ended(child)) and time.monotonic() - start < timeout:
                _listen(selector, TICK)
            end_group(child)
            left = PIPE_HOLDS  # what it wrote last still lies in the pipes
            while left > 0 and (heard := _listen(selector, 0)):
                left -= heard
    except BaseException:
        end_group(child)
        raise
    code = child.returncode if child.returncode is not None else -signal.SIGKILL
    texts = [bytes(heard).decode(errors="replace") for heard in (said, words)]
    return Finished(tuple(argv), code, texts[0], texts[1], time.monotonic() - start, timed_out=not ended)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; it is not reaped yet, so that its process group is still its own."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _listen(selector: selectors.BaseSelector, seconds: float) -> int:
    """Take what is there to read; how many bytes that were."""
    heard = 0
    for key, _ in selector.select(seconds):
        piece = os.read(key.fd, PIECE)
        if not piece:
            selector.unregister(key.fileobj)
            continue
        heard += len(piece)
        kept, most = key.data
        if most < 0:
            kept += piece
            del kept[:most]
        else:
            kept += piece[: most - len(kept)]
    return heard
