"""Start-up: what a person waits for before anything is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, command, in_turn


def rows() -> Iterator[Row]:
    """Against the empty Python program in the same environment."""
    python = sys.executable
    torchsmith = str(Path(python).with_name("torchsmith"))
    for args, goal in ((["--version"], 10.0), (["list", "--names"], 20.0)):
        ours, theirs = in_turn(command([torchsmith, *args]), command([python, "-c", "pass"]), repeats=15)
        yield Row(f"torchsmith {' '.join(args)}", "python -c pass", ours, theirs, goal, "lower")
