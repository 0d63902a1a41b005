"""Processes that work for another one end with it, however it ends, and hold none of its output."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchsmith.core.problem import Failed
from torchsmith.core.process import ChildProcess, run

WORKER = """
import sys, time
from torchsmith.core.process import ChildProcess, run

kinds = {"child": ChildProcess, "run": lambda argv: run(argv, ends_with_us=True)}
program = "import os, sys, time; open(sys.argv[1] + '/0', 'w').write(str(os.getpid())); time.sleep(600)"
child = kinds[sys.argv[2]]([sys.executable, "-c", program, sys.argv[1]])
time.sleep(600)
"""


def started(folder: Path, count: int) -> list[int]:
    """The numbers of the workers, once each has written its own."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        texts = [file.read_text() for file in folder.iterdir()]
        if len([text for text in texts if text]) == count:
            return [int(text) for text in texts]
        time.sleep(0.05)
    raise AssertionError("the workers did not start")


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def ended(numbers: list[int]) -> bool:
    end = time.monotonic() + 30
    while any(map(alive, numbers)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, numbers))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone ends children with parents")
@pytest.mark.parametrize("kind", ["child", "run"])
def test_a_program_that_only_works_for_us_ends_when_we_are_killed(tmp_path: Path, kind: str) -> None:
    script, folder = tmp_path / "worker.py", tmp_path / "workers"
    script.write_text(WORKER)
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, script, folder, kind])
    workers = started(folder, 1)
    parent.kill()
    parent.wait()
    assert ended(workers)


def test_every_child_is_started_in_one_place() -> None:
    source = Path(__file__).parents[2] / "src/torchsmith"
    starts = re.compile(r"\bPopen\(|\bsubprocess\.(?:run|call|check_\w+)\(|\bos\.(?:fork|spawn\w*|system)\(")
    files = [file for file in source.rglob("*.py") if starts.search(file.read_text())]
    found = {str(file.relative_to(source)) for file in files if "samples" not in file.parts}
    # What a rehearsal runs inside of a build has nothing of torchsmith's at hand.
    assert found - INSIDE_BUILDS == {"core/process.py"}


INSIDE_BUILDS = {"building/rehearse_child.py", "benchmark/probe.py", "artifact/probe.py"}


def test_a_run_ends_with_its_program_and_not_with_what_that_left_running(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = run(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/left; echo out; echo err >&2; exit 7"])
    assert (done.code, done.stdout, done.stderr, done.timed_out) == (7, "out\n", "err\n", False)
    assert time.monotonic() - begun < 30
    assert ended([int((tmp_path / "left").read_text())])


def test_input_of_any_size_reaches_a_program() -> None:
    text = "x" * (1 << 20)
    assert run(["cat"], stdin=text).stdout == text


def test_the_beginning_of_stdout_and_the_end_of_stderr_are_kept() -> None:
    script = "seq 1 100000; seq 1 100000 >&2"
    done = run(["sh", "-c", script], max_stdout=10, max_stderr=10)
    assert (done.stdout, done.stderr) == ("1\n2\n3\n4\n5\n", "99\n100000\n")


def test_a_run_is_ended_after_its_time_with_what_it_wrote_until_then() -> None:
    done = run(["sh", "-c", "echo begun; sleep 60"], timeout=0.5)
    assert (done.timed_out, done.stdout, done.code) == (True, "begun\n", -signal.SIGKILL)
    assert done.seconds < 30


def test_a_child_answers_lines_and_says_when_it_cannot() -> None:
    pipe = subprocess.PIPE
    with ChildProcess(["cat"], stdin=pipe, stdout=pipe) as child:
        assert child.ask(b"one", 30) == b"one"
        child.send(b"12345678")
        assert child.read(8) == b"12345678"
        assert child.ask(b"x" * 200, 30, max_bytes=100) == b""
    with ChildProcess(["sh", "-c", "read line; exit 0"], stdin=pipe, stdout=pipe) as child:
        assert child.ask(b"one", 30) == b""
        with pytest.raises(EOFError):
            child.read(1)
    with ChildProcess(["sleep", "60"], stdin=pipe, stdout=pipe) as child, pytest.raises(TimeoutError):
        child.ask(b"one", 0.2)
    with pytest.raises(Failed):
        ChildProcess(["/nowhere/program"])
