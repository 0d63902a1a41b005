"""Start-up: what a person waits for before anything is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, command, in_turn

CELL = "pytorch-python313-cuda13_0-sm120-avx512"
SHORT = (
    (["--version"], 3.0),
    (["--help"], 8.0),
    (["list"], 8.0),
    (["show", CELL], 8.0),
    (["pick", "--cpu", "zen4", "--gpu", "RTX 5090", "--driver", "580.65.06"], 8.0),
)


def rows() -> Iterator[Row]:
    """Against the empty Python program in the same environment, both with bytecode kept, as installed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = sys.executable
    torchsmith = str(Path(python).with_name("torchsmith"))
    for args, goal in SHORT:
        ours, theirs = in_turn(command([torchsmith, *args]), command([python, "-c", "pass"]), repeats=15)
        yield Row(f"torchsmith {args[0]}", "python -c pass", ours, theirs, goal, "lower")
