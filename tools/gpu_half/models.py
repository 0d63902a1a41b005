"""Two torches beside each other in whole training and inference steps, in turns of one process each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from torchsmith.benchmark.measure import first_in
from torchsmith.benchmark.statistics import RatioEstimate, estimate
from torchsmith.core.problem import Problem

STEPS = Path(__file__).with_name("steps.py")


def time_steps(python: Path, site: Path) -> dict[str, float]:
    """Seconds of a step of each model with the torch of a site-packages folder. Raises Problem."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    process = subprocess.run([python, STEPS], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise Problem(f"the models did not run with {site}; the last lines say why")
    return dict(json.loads(process.stdout))


def compare_models(
    python: Path, sites: tuple[Path, Path], rounds: int
) -> Iterator[tuple[str, list[float], list[float], RatioEstimate]]:
    """For each model its seconds by the first and by the second, round by round, and the ratio."""
    taken: list[list[dict[str, float]]] = [[], []]
    for number in range(rounds):
        for side in (first_in(number), 1 - first_in(number)):
            taken[side].append(time_steps(python, sites[side]))
    for name in taken[0][0]:
        first, second = ([times[name] for times in side] for side in taken)
        yield name, first, second, estimate(first, second, len(taken[0][0]))
