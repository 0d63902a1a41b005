"""Child processes: no shell, a process group and limits of their own, and an end with ours."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import IO, Any, Self

from torchsmith.core.problem import Failed

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 2.0  # after a kill: a process that waits for a device cannot be ended, and is not waited for
POLL_SECONDS = 0.05  # between two checks whether a process has ended
CLOSED_SECONDS = 0.001  # the same, once it has closed its output
READ_BYTES = 1 << 16
PIPE_BYTES = 2 << 20  # two pipes, each as large as they can be made


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended, by itself or by its time limit."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out

    @property
    def line(self) -> str:
        """The command as a person would type it."""
        return shlex.join(self.argv)


def find(program: str) -> Path | None:
    """Where a program is on PATH, or None."""
    path = shutil.which(program)
    return Path(path) if path else None


@cache
def _prctl() -> Any:
    import ctypes  # only for programs that start processes

    return getattr(ctypes.CDLL(None), "prctl", None)


def ending_with_parent(parent: int = 0) -> Callable[[], None]:
    """A function that a new process calls, so that Linux ends it when its parent's thread ends. With the
    parent's number it ends at once if the parent has ended already."""
    prctl = _prctl()

    def arrange() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent and os.getppid() != parent:
            os._exit(1)

    return arrange


def signal_name(code: int) -> str:
    """The signal that ended a process, by its exit code; empty if none did."""
    known = -code in list(signal.Signals)
    return signal.Signals(-code).name if known else f"signal {-code}" if code < 0 else ""


Stream = int | IO[Any] | None  # as Popen takes it
Argv = Sequence[str | os.PathLike[str]]


class ChildProcess:
    """A running command in a process group of its own. `end` ends it with all that it started, and so does
    Linux if the thread that started it ends; without `ends_with_us` it starts 10 ms sooner. Its output is
    read from stdout, or from stderr if stdout is not a pipe. Raises Failed if it cannot be started."""

    def __init__(
        self,
        argv: Argv,
        *,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        ends_with_us: bool = True,
    ) -> None:
        command = [os.fspath(word) for word in argv]
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=ending_with_parent(os.getpid()) if ends_with_us else None,
            )
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error.strerror}") from error
        self._rest = b""  # output that was read and not used yet
        self._selector = selectors.DefaultSelector()
        if output := self.process.stdout or self.process.stderr:
            self._selector.register(output, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _more(self, seconds: float | None) -> bool | None:
        """Wait for output: True if there was some, False at its end, None after `seconds`."""
        ready = self._selector.select(seconds)
        if not ready:
            return None
        piece = os.read(ready[0][0].fd, READ_BYTES)
        self._rest += piece
        return bool(piece)

    def lines(self, tick: float) -> Iterator[str | None]:
        """Each line of output as it comes; None if `tick` seconds pass without one."""
        while (more := self._more(tick)) is not False:
            if more is None:
                yield None
                continue
            *complete, self._rest = self._rest.split(b"\n")
            yield from (line.decode(errors="replace") for line in complete)
        if self._rest:
            yield self._rest.decode(errors="replace")

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError if it has ended."""
        source = self.process.stdin
        assert source is not None
        source.write(data)
        source.flush()

    def read(self, size: int) -> bytes:
        """So many bytes of its output. Raises EOFError if it ends before."""
        while len(self._rest) < size:
            if not self._more(None):
                raise EOFError
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def ask(self, line: bytes, seconds: float, max_bytes: float = inf) -> bytes:
        """The line that it answers a line with; empty if it ended or wrote more than `max_bytes`. Raises
        OSError if it had ended before, TimeoutError if it does not answer in time."""
        end = time.monotonic() + seconds
        self.send(line + b"\n")
        while b"\n" not in self._rest:
            more = self._more(max(end - time.monotonic(), 0))
            if more is None:
                raise TimeoutError
            if not more or len(self._rest) > max_bytes:
                return b""
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer

    def memory(self) -> int:
        """Bytes of memory in use now; 0 once it has ended."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself; it is not reaped, so that its process group is still its own."""
        pid = self.process.pid
        return (
            self.process.returncode is not None
            or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        )

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait()

    def interrupt(self) -> None:
        """Interrupt it, as Ctrl-C does: Nix then ends the builds that it started itself."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """End it and everything that it started, and close its streams. Returns its exit code."""
        self.kill()
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # input that it never read
                    stream.close()
        code = self.process.returncode
        return -signal.SIGKILL if code is None else code

    def kill(self) -> None:
        """End it and everything that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: it has ended
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)


def run(
    argv: Argv,
    *,
    timeout: float | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    names: bool = False,
    max_bytes: float = inf,
    max_stdout: int | None = None,
    max_stderr: int | None = None,
    ends_with_us: bool = False,
) -> Finished:
    """Run a command until it ends, then end what it left running.

    After `timeout` seconds, or once it has written `max_bytes`, it is ended. Only the first `max_stdout`
    bytes and the last `max_stderr` bytes are kept. With `ends_with_us` it ends with this process; short
    commands do without, since starting takes 10 ms more. With `names` its output has file names, which may
    have any byte, and can be encoded to the same bytes again.
    """
    start = time.monotonic()
    end = start + (inf if timeout is None else timeout)
    with contextlib.ExitStack() as stack:
        source: Stream = subprocess.DEVNULL
        if stdin is not None:
            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(os.fsencode(stdin))
            source.seek(0)
        pipe = subprocess.PIPE
        child = ChildProcess(
            argv, stdin=source, stdout=pipe, stderr=pipe, cwd=cwd, env=env, ends_with_us=ends_with_us
        )
        stack.enter_context(child)
        outputs = _Outputs(child, max_stdout, max_stderr)
        stack.callback(outputs.close)
        while not (ended := child.ended) and time.monotonic() < end and outputs.size <= max_bytes:
            outputs.read(min(POLL_SECONDS, max(end - time.monotonic(), 0)))
        child.kill()
        last = outputs.size + PIPE_BYTES  # its last output is still in the pipes
        while outputs.size < last and outputs.read(0):
            pass
        code = child.process.returncode
    decode = os.fsdecode if names else _lines
    out, err = decode(bytes(outputs.stdout)), decode(bytes(outputs.stderr))
    command = tuple(os.fspath(word) for word in argv)
    code = -signal.SIGKILL if code is None else code
    return Finished(command, code, out, err, time.monotonic() - start, timed_out=not ended)


class _Outputs:
    """What a child writes to its two pipes."""

    def __init__(self, child: ChildProcess, max_stdout: int | None, max_stderr: int | None) -> None:
        self.stdout, self.stderr, self.size = bytearray(), bytearray(), 0
        self.max_stdout, self.max_stderr = max_stdout, max_stderr
        self._selector = selectors.DefaultSelector()
        for stream, output in ((child.process.stdout, self.stdout), (child.process.stderr, self.stderr)):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ, output)

    def read(self, seconds: float) -> int:
        """Wait for output and take it. Returns the number of bytes."""
        if not self._selector.get_map():  # both are closed: it ends at once, most often
            time.sleep(min(seconds, CLOSED_SECONDS))
            return 0
        size = 0
        for key, _ in self._selector.select(seconds):
            piece = os.read(key.fd, READ_BYTES)
            if not piece:
                self._selector.unregister(key.fileobj)
            size += len(piece)
            key.data.extend(piece)
        if self.max_stdout is not None:
            del self.stdout[self.max_stdout :]
        if self.max_stderr is not None:
            del self.stderr[: -self.max_stderr]
        self.size += size
        return size

    def close(self) -> None:
        self._selector.close()


def _lines(text: bytes) -> str:
    return text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
