"""`torchsmith compare A B`: two builds side by side, measured in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import answer, exit_if
from torchsmith.cli.svg import check_svg

EXAMPLE = "torchsmith compare sample sample --runs 2 --svg gain.svg"
BUILD = "A cell's name, an environment, a result link, a store path, a Python that has torch, or `sample`"


def run(
    a: Annotated[Path, Argument(f"{BUILD}.", metavar="A")],
    b: Annotated[Path, Argument("What to compare it with, in the same forms.", metavar="B")],
    runs: Annotated[int, Option("Rounds, each with a fresh process of both.", min=2, max=60)] = 16,
    cores: Annotated[int, Option("Cores, and threads, to measure with.", min=1)] = 1,
    env_a: Annotated[list[str] | None, Option("A variable for A alone.", metavar="NAME=VALUE")] = None,
    env_b: Annotated[list[str] | None, Option("A variable for B alone.", metavar="NAME=VALUE")] = None,
    timeout: Annotated[float, Option("Seconds that one step may take.", min=1)] = 120,
    svg: Annotated[Path | None, Option("Draw the ratios with their intervals in this file.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two builds: size, import, memory, first CUDA call, operations on the CPU and on a GPU.

    Both run in fresh processes that take turns on the same cores. A difference is called one where it is
    more than noise; where the noise is too large, that is said. Wrong results (against float64) disqualify
    an operation. The exit code is 1 where A computes something wrong or crashes. Ctrl-C ends it with what was
    measured until then.
    """
    from torchsmith.api.by_name import build_named
    from torchsmith.api.samples import or_sample
    from torchsmith.benchmark.compare import compare_builds
    from torchsmith.benchmark.cores import busy_shares, choose
    from torchsmith.benchmark.measure import MeasuringPlan
    from torchsmith.benchmark.plot import forest
    from torchsmith.benchmark.subject import subject, variables
    from torchsmith.cli.compare_view import print_builds
    from torchsmith.cli.progress import rounds_bar
    from torchsmith.core.files import write_atomic
    from torchsmith.workspace.load import open_workspace

    check_svg(svg)
    opened = open_workspace(workspace)
    subjects = [
        subject(label, build_named(or_sample(path, "build"), opened), opened.catalog, variables(given or []))
        for label, path, given in (("A", a, env_a), ("B", b, env_b))
    ]
    shares = busy_shares()
    way = MeasuringPlan(runs, tuple(choose(shares, cores)), timeout)
    with rounds_bar(f"on core {', '.join(map(str, way.cores))}") as progress:
        comparison = compare_builds(subjects, way, shares, opened.catalog, progress)
    if svg:
        write_atomic(svg, forest(comparison))
    answer(comparison, print_builds, as_json=json)
    exit_if(any(row.outcome in ("wrong", "failed") and "A" in row.detail for row in comparison.rows))
