"""Running a program that is not trusted: its output is bounded, and nothing waits for its children."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from torchsmith.core.process import Finished, end_group, spawn

MOST_STDOUT = 8 << 20  # bytes from the beginning; the rest is dropped
MOST_STDERR = 64 << 10  # bytes from the end
POLL_SECONDS = 0.05  # between two checks whether it has ended
READ_BYTES = 1 << 16
PIPE_BYTES = 2 << 20  # two pipes, each as large as they can be made


def watch(argv: Sequence[str], *, timeout: float, env: Mapping[str, str]) -> Finished:
    """Run a program until it ends, even if others hold its pipes; then end its whole process group."""
    start = time.monotonic()
    pipe = subprocess.PIPE
    child = spawn(argv, cwd="/", env=dict(env), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    assert child.stdout
    assert child.stderr
    stdout, stderr = bytearray(), bytearray()
    try:
        with child.stdout, child.stderr, selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ, (stdout, MOST_STDOUT))
            selector.register(child.stderr, selectors.EVENT_READ, (stderr, -MOST_STDERR))
            while not (ended := _ended(child)) and time.monotonic() - start < timeout:
                _listen(selector, POLL_SECONDS)
            end_group(child)
            left = PIPE_BYTES  # its last output is still in the pipes
            while left > 0 and (size := _listen(selector, 0)):
                left -= size
    except BaseException:
        end_group(child)
        raise
    code = child.returncode if child.returncode is not None else -signal.SIGKILL
    texts = [bytes(output).decode(errors="replace") for output in (stdout, stderr)]
    return Finished(tuple(argv), code, texts[0], texts[1], time.monotonic() - start, timed_out=not ended)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; it is not reaped yet, so that its process group is still its own."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _listen(selector: selectors.BaseSelector, seconds: float) -> int:
    """Read what is there. Returns the number of bytes."""
    size = 0
    for key, _ in selector.select(seconds):
        piece = os.read(key.fd, READ_BYTES)
        if not piece:
            selector.unregister(key.fileobj)
            continue
        size += len(piece)
        output, most = key.data
        if most < 0:
            output += piece
            del output[:most]
        else:
            output += piece[: most - len(output)]
    return size
