"""Processes that work for another one end with it, however it ends, and hold none of its output."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

POOL = """
import sys, time
from torchsmith.core.process import worker_pool

def prepare(): pass
def work(number):
    open(f"{sys.argv[1]}/{number}", "w").write(str(__import__("os").getpid()))
    time.sleep(600)

if __name__ == "__main__":
    with worker_pool(2, prepare) as pool:
        list(pool.map(work, range(2)))
"""
WORKER = """
import sys, time
from torchsmith.core.process import Dialogue, Running

kind = {"running": lambda argv: Running(argv, ends_with_us=True), "dialogue": Dialogue}[sys.argv[2]]
program = "import os, sys, time; open(sys.argv[1] + '/0', 'w').write(str(os.getpid())); time.sleep(600)"
child = kind([sys.executable, "-c", program, sys.argv[1]])
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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_workers_of_a_pool_end_with_their_parent_and_hold_no_output(
    tmp_path: Path, number: signal.Signals
) -> None:
    script, folder = tmp_path / "pool.py", tmp_path / "workers"
    script.write_text(POOL)
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup hands on that it is ignored
    )
    assert parent.stdout is not None
    workers = started(folder, 2)
    os.kill(parent.pid, number)
    assert parent.wait(30) != 0
    readable, _, _ = select.select([parent.stdout], [], [], 30)
    assert readable, "somebody still holds what the parent wrote to"
    assert parent.stdout.read() == b""
    assert ended(workers)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone ends children with parents")
@pytest.mark.parametrize("kind", ["running", "dialogue"])
def test_a_program_that_only_works_for_us_ends_when_we_are_killed(tmp_path: Path, kind: str) -> None:
    script, folder = tmp_path / "worker.py", tmp_path / "workers"
    script.write_text(WORKER)
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, script, folder, kind])
    workers = started(folder, 1)
    parent.kill()
    parent.wait()
    assert ended(workers)


def test_every_pool_of_processes_is_such_a_one() -> None:
    source = Path(__file__).parents[2] / "src/torchsmith"
    pools = [file for file in source.rglob("*.py") if "ProcessPoolExecutor(" in file.read_text()]
    assert [str(file.relative_to(source)) for file in pools] == ["core/process.py"]
