"""Listing the GPU code of a real libtorch_cuda.so against NVIDIA's cuobjdump, in time and in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measure import Row, Timing, command, in_turn
from tests.artifact.toolkit import CUOBJDUMP, tool
from tools.verify_real import WHEELS, cached, unpacked
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.source import open_file

WHEEL = "torch==2.15.0"
OURS = """
import sys
from pathlib import Path
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.source import open_file
with open_file(Path(sys.argv[1])) as source:
    for container in containers_of(read_elf(source)):
        for entry in container.entries:
            print(entry.kind, entry.target, entry.size)
"""
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def rows() -> Iterator[Row]:
    """Needs torch's wheel in the cache (`make verify-real` fetches it) and 7 GB of memory for cuobjdump."""
    wheel = cached(WHEEL, WHEELS[WHEEL])
    if wheel is None:
        raise FileNotFoundError(f"{WHEEL} is not in the cache; make verify-real fetches it")
    for name, library in unpacked(wheel):
        if name.endswith("/libtorch_cuda.so"):
            yield from _rows(library)


def _rows(library: Path) -> Iterator[Row]:
    what = "list GPU code of libtorch_cuda.so"
    rival = [str(tool(CUOBJDUMP, "cuobjdump")), "-lelf", str(library)]
    ours = [sys.executable, "-c", OURS, str(library)]
    mine, theirs = in_turn(lambda: _listed(library), command(rival), repeats=3)
    yield Row(what, "cuobjdump", mine, theirs, 100, "higher", "inside a process, as `torchsmith verify` does")
    mine, theirs = in_turn(command(ours), command(rival), repeats=3)
    yield Row(
        f"{what}, as a process", "cuobjdump", mine, theirs, 20, "higher", "most of it is Python's start"
    )
    whole = [sys.executable, "-m", "torchsmith", "verify", str(library), "--no-cpu"]
    mine, theirs = in_turn(command(whole), command(rival), repeats=3)
    yield Row(
        "torchsmith verify --no-cpu", "cuobjdump", mine, theirs, 15, "higher", "the whole command, judged"
    )
    peaks = Timing((_peak_gib(ours),)), Timing((_peak_gib(rival),))
    yield Row(f"{what}: memory", "cuobjdump", *peaks, 100, "higher", "GiB where the table says s")


def _listed(library: Path) -> None:
    with open_file(library) as source:
        assert sum(len(container.entries) for container in containers_of(read_elf(source))) > 1000


def _peak_gib(argv: Sequence[str]) -> float:
    """The largest resident size of a command; a child inherits its parent's, so a small process starts it."""
    done = subprocess.run([sys.executable, "-c", PEAK, *argv], capture_output=True, text=True, check=True)
    return int(done.stdout) / (1 << 20)
