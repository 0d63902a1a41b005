"""The scheduler itself: its CPU for each job beside what Nix and ssh take for the same one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, Timing
from tools.load.farm import run
from tools.load.reckon import Load


def rows() -> Iterator[Row]:
    """200 trivial derivations on 8 loopback builders that are not killed."""
    load = Load(200, 8, seconds=0.0, every=(1e9, 1e9))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cost = run(Path(folder), load).cost
    ours, nixs = (Timing((seconds / load.jobs,)) for seconds in (cost.schedule, cost.nix))
    yield Row("CPU to hand out a job", "Nix and ssh for that job", ours, nixs, 0.1, "lower", note="no builds")
