"""`torchsmith compare`: measure two builds side by side, in turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from torchsmith.artifact.check import megabytes
from torchsmith.benchmark.compare import BuildComparison, BuildSide, MeasureRow, compare_builds
from torchsmith.benchmark.cores import busy_shares, choose
from torchsmith.benchmark.measure import MeasuringPlan
from torchsmith.benchmark.statistics import LEVEL, RatioOutcome
from torchsmith.benchmark.subject import subject, variables
from torchsmith.building.by_name import build_to_run
from torchsmith.cli.console import Painted, answer, exit_if, table, write
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith compare result .venv --runs 2"
WORDS: dict[RatioOutcome, tuple[str, str]] = {
    "lower": ("less", "green"),
    "higher": ("more", "red"),
    "same": ("same", "dim"),
    "noisy": ("noise", "yellow"),
    "wrong": ("wrong", "bold red"),
    "failed": ("failed", "bold red"),
}
FIGURES = ("A", "B", "A/B", "within", "spread")
PLACES = {"start": "start", "cpu": "CPU", "cuda": "GPU"}
BUILD = "A build's name, an environment, a result link, a store path, or a Python that has torch"


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """Two builds, and how they are measured."""

    a: Annotated[Path, Argument(f"{BUILD}.", metavar="A")]
    b: Annotated[Path, Argument("What to compare it with, in the same forms.", metavar="B")]
    runs: Annotated[int, Option("Rounds, each with a fresh process of both.", min=2, max=60)] = 16
    cores: Annotated[int, Option("Cores, and threads, to measure with.", min=1)] = 1
    env_a: Annotated[tuple[str, ...], Option("A variable for A alone.", metavar="NAME=VALUE")] = ()
    env_b: Annotated[tuple[str, ...], Option("A variable for B alone.", metavar="NAME=VALUE")] = ()
    timeout: Annotated[float, Option("Seconds that one step may take.", min=1)] = 120
    workspace: WorkspaceOption = None


def compare(request: CompareRequest, reporter: Reporter = SILENT) -> BuildComparison:
    """Measure size, import, memory, first CUDA call and operations of two builds that take turns."""
    opened = open_workspace(request.workspace)
    sides = (("A", request.a, request.env_a), ("B", request.b, request.env_b))
    subjects = [
        subject(label, build_to_run(word, opened).path, opened.catalog, variables(given))
        for label, word, given in sides
    ]
    shares = busy_shares()
    plan = MeasuringPlan(request.runs, tuple(choose(shares, request.cores)), request.timeout)
    activity = f"on core {', '.join(map(str, plan.cores))}"
    with reporter.progress("rounds") as progress:
        return compare_builds(subjects, plan, shares, partial(progress, activity))


def run(*, request: CompareRequest, json: JsonOption = False) -> None:
    """Compare two builds: size, import, memory, first CUDA call, operations on the CPU and on a GPU.

    Both run in fresh processes that take turns on the same cores. A difference is reported only if it
    exceeds the noise. An operation with wrong results (against float64) is left out. The exit code is 1 if A
    computes something wrong or crashes. Ctrl-C stops and reports what was measured so far.
    """
    comparison = compare(request, Terminal())
    answer(comparison, print_builds, as_json=json)
    exit_if(any("A" in row.faulty for row in comparison.rows))


def print_builds(comparison: BuildComparison) -> None:
    """Print what was compared, the measures, and whether they differ."""
    for side in (comparison.a, comparison.b):
        write(_about(side))
    where = ", ".join(filter(None, [f"core {', '.join(map(str, comparison.cores))}", comparison.gpu]))
    write(f"{comparison.runs} rounds on {where}, each with fresh processes that take turns")
    _print_measures(comparison)
    for row in comparison.rows:
        if row.detail:
            write(f"{PLACES[row.where]}, {row.name}: {row.detail}", "red")
    for note in comparison.notes:
        write(note, "yellow")
    write(summary(comparison), "bold")


def _about(side: BuildSide) -> str:
    facts = [f"torch {side.version}", f"CUDA {side.cuda}" if side.cuda else "no CUDA", side.cpu_capability]
    facts += [f"{name}={value}" for name, value in side.environment.items()]
    sizes = (
        f"torch's folder has {megabytes(side.folder)}, a process loads {megabytes(side.loaded)} of libraries"
    )
    return f"{side.label}: {side.path} ({', '.join(facts)}); {sizes}"


def _print_measures(comparison: BuildComparison) -> None:
    rows: list[list[Painted]] = []
    for row in comparison.rows:
        verdict = WORDS[row.outcome]
        if row.ratio is None or row.a is None or row.b is None:
            rows.append([_name(row), "", "", "", "", "", verdict])
            continue
        values = _amount(row.a, row.unit), _amount(row.b, row.unit)
        within = "-" if row.within is None else f"±{row.within:.1%}"
        spread = f"{max(row.spread_a or 0, row.spread_b or 0):.1%}"
        rows.append([_name(row), *values, f"{row.ratio:.3f}", within, spread, verdict])
    table(("measure", *FIGURES, "A takes"), rows, right=FIGURES)


def _name(row: MeasureRow) -> str:
    return row.name if row.where == "start" else f"{PLACES[row.where]} {row.name}"


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return megabytes(int(value))
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def summary(comparison: BuildComparison) -> str:
    """Return how many measures differ, and the noise."""
    counts = Counter(row.outcome for row in comparison.rows)
    parts = [f"{counts[outcome]} {word}" for outcome, (word, _) in WORDS.items() if counts[outcome]]
    noise = f"; half of the intervals are wider than ±{comparison.noise:.1%}" if comparison.noise else ""
    return (
        f"A takes, of {len(comparison.rows)} measures: {', '.join(parts)}"
        f" (at most {LEVEL:.0%} that a claim is chance{noise})"
    )
