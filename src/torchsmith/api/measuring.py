"""Two builds measured side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from torchsmith.benchmark.compare import BuildComparison, compare_builds
from torchsmith.benchmark.cores import busy_shares, choose
from torchsmith.benchmark.measure import MeasuringPlan
from torchsmith.benchmark.subject import subject, variables
from torchsmith.building.by_name import build_to_run
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.samples import or_sample
from torchsmith.workspace.load import open_workspace

BUILD = "A cell's name, an environment, a result link, a store path, a Python that has torch, or `sample`"


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
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
    """Size, import, memory, first CUDA call and operations of builds that take turns on the same cores."""
    opened = open_workspace(request.workspace)
    sides = (("A", request.a, request.env_a), ("B", request.b, request.env_b))
    subjects = [
        subject(label, build_to_run(or_sample(path, "build"), opened), opened.catalog, variables(environment))
        for label, path, environment in sides
    ]
    shares = busy_shares()
    plan = MeasuringPlan(request.runs, tuple(choose(shares, request.cores)), request.timeout)
    with reporter.rounds(f"on core {', '.join(map(str, plan.cores))}") as progress:
        return compare_builds(subjects, plan, shares, opened.catalog, progress)
