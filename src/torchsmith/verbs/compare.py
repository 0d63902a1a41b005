"""`torchsmith compare A B`: two builds side by side, measured in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.api.measuring import CompareRequest, compare
from torchsmith.cli.console import answer, exit_if
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.verbs.compare_view import print_builds
from torchsmith.verbs.svg import check_svg, write_svg

EXAMPLE = "torchsmith compare sample sample --runs 2 --svg gain.svg"


def run(
    *,
    request: CompareRequest,
    svg: Annotated[Path | None, Option("Draw the ratios with their intervals in this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare two builds: size, import, memory, first CUDA call, operations on the CPU and on a GPU.

    Both run in fresh processes that take turns on the same cores. A difference is reported only where it
    exceeds the noise. An operation with wrong results (against float64) is left out. The exit code is 1 if A
    computes something wrong or crashes. Ctrl-C stops and reports what was measured so far.
    """
    check_svg(svg)
    comparison = compare(request, Terminal())
    answer(comparison, print_builds, as_json=json)
    if svg is not None:
        from torchsmith.page.ratios import ratios_picture

        write_svg(ratios_picture(comparison), svg)
    exit_if(any(row.outcome in ("wrong", "failed") and "A" in row.detail for row in comparison.rows))
