"""The one way to run a command: no shell, a time limit, and its output as a value."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchsmith.core.problem import Failed

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 2.0  # a process that waits for a device cannot be ended; nobody should wait for it in turn


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


def ending_with_parent(parent: int = 0) -> Callable[[], None]:
    """What a new process calls so that it ends when its parent does, however that ends; Linux alone has it.
    With the parent's number it ends at once where that has ended before."""
    import ctypes  # only where processes work for us

    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def arrange() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent and os.getppid() != parent:
            os._exit(1)

    return arrange


@contextmanager
def worker_pool(jobs: int, prepare: Callable[..., None], *args: object) -> Iterator[ProcessPoolExecutor]:
    """Processes that work for this one. They end with it, also where it is killed, and hold none of its
    output; what interrupts this one does not wait for them."""
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(jobs, initializer=_begin_work, initargs=(prepare, args))
    try:
        yield pool
    except BaseException:
        for worker in list((pool._processes or {}).values()):
            worker.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin_work(prepare: Callable[..., None], args: Sequence[object]) -> None:
    ending_with_parent()()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts us all means the parent
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    prepare(*args)


def spawn(
    argv: Sequence[str | os.PathLike[str]], *, ends_with_us: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Start a command in a process group of its own, as Popen does; a Problem says why it cannot be run. One
    that only works for us ends when the thread that started it does."""
    command = [os.fspath(word) for word in argv]
    if ends_with_us:
        options["preexec_fn"] = ending_with_parent(os.getpid())
    try:
        return subprocess.Popen(command, start_new_session=True, **options)
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}") from error


def signal_name(code: int) -> str:
    """The signal that ended a process, by its exit code; empty where none did."""
    known = -code in list(signal.Signals)
    return signal.Signals(-code).name if known else f"signal {-code}" if code < 0 else ""


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    names: bool = False,
    max_bytes: int | None = None,
) -> Finished:
    """Run a command to its end; past `timeout`, or once it has written `max_bytes`, its whole process group
    is ended. With `names` its output holds file names, which may have any byte, and can be turned back into
    the very bytes."""
    command = tuple(os.fspath(word) for word in argv)
    start = time.monotonic()
    child = spawn(
        command,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    timed_out = False
    data = os.fsencode(stdin) if stdin is not None else None
    try:
        if max_bytes is None:
            out, err = child.communicate(data, timeout=timeout)
        else:
            out, err = _bounded(child, timeout, max_bytes)
    except subprocess.TimeoutExpired:
        timed_out = True
        end_group(child)
        out, err = _rest(child)
    except BaseException:
        end_group(child)
        raise
    code = child.returncode if child.returncode is not None else -signal.SIGKILL
    read = os.fsdecode if names else _lines
    return Finished(command, code, read(out), read(err), time.monotonic() - start, timed_out)


def _bounded(child: subprocess.Popen[bytes], timeout: float | None, max_bytes: int) -> tuple[bytes, bytes]:
    """What a child writes to its end; TimeoutExpired where that takes too long or is too much."""
    end = time.monotonic() + (inf if timeout is None else timeout)
    assert child.stdout is not None
    assert child.stderr is not None
    texts = {child.stdout.fileno(): b"", child.stderr.fileno(): b""}
    with selectors.DefaultSelector() as selector:
        for stream in texts:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = end - time.monotonic()
            ready = selector.select(None if left == inf else max(left, 0))
            if not ready or sum(map(len, texts.values())) > max_bytes:
                raise subprocess.TimeoutExpired(child.args, timeout or 0)
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
    child.wait()
    out, err = texts.values()
    return out, err


def _lines(text: bytes) -> str:
    return text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def end_group(child: subprocess.Popen[Any]) -> None:
    """End a child started by us and everything that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_SECONDS)


def _rest(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a child that was ended had said; nothing where it hangs in the kernel and keeps its pipes."""
    try:
        return child.communicate(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return b"", b""


class Dialogue:
    """A child that answers each line that it is given with a line."""

    def __init__(self, argv: Sequence[str], *, max_bytes: float = inf, **options: Any) -> None:
        pipe = subprocess.PIPE
        self.child = spawn(argv, ends_with_us=True, stdin=pipe, stdout=pipe, **options)
        self.max_bytes = max_bytes  # of an answer
        self._rest = b""

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Its answer; nothing where it ended or said too much. An OSError where it had ended before, a
        TimeoutError where it does not answer in time."""
        source, answers, end = self.child.stdin, self.child.stdout, time.monotonic() + seconds
        assert source is not None
        assert answers is not None
        source.write(line + b"\n")
        source.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(end - time.monotonic(), 0)):
                    raise TimeoutError
                piece = os.read(answers.fileno(), 1 << 16)
                if not piece or len(self._rest) > self.max_bytes:
                    return b""
                self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer

    def close(self) -> None:
        """End it and whatever it started."""
        end_group(self.child)
        for stream in (self.child.stdin, self.child.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # a line that it never read
                    stream.close()


class Running:
    """A command that is still running: the lines it writes to stderr, its memory, and a way to end it.

    With `both`, what it writes to stdout comes among those lines.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        both: bool = False,
        ends_with_us: bool = False,
    ) -> None:
        self._child = spawn(
            argv,
            ends_with_us=ends_with_us,
            env=dict(env) if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if both else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
        )
        self._stream = self._child.stdout if both else self._child.stderr
        self._rest = b""

    def lines(self, tick: float) -> Iterator[str | None]:
        """Each line as it comes; None whenever `tick` seconds pass without one."""
        stream = self._stream
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                if not selector.select(tick):
                    yield None
                    continue
                chunk = os.read(stream.fileno(), 1 << 16)
                if not chunk:
                    break
                *complete, self._rest = (self._rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in complete)
        if self._rest:
            yield self._rest.decode(errors="replace")

    def memory(self) -> int:
        """Bytes of memory in use now; 0 once it has ended."""
        try:
            pages = Path(f"/proc/{self._child.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def wait(self) -> int:
        return self._child.wait()

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does: Nix then ends the builds that it started itself."""
        self._signal(signal.SIGINT)

    def end(self) -> None:
        """End it and everything that it started; harmless when it has ended by itself."""
        self._signal(signal.SIGKILL)
        self._child.wait()
        if self._stream is not None:
            self._stream.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
