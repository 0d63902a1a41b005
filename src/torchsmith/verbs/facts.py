"""`torchsmith facts`: the catalog proved against tools that nobody here wrote."""

from __future__ import annotations

from torchsmith.api.proving import FactsReport, FactsRequest, facts
from torchsmith.cli.console import answer, exit_if, table, write
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.core.text import counted

EXAMPLE = "torchsmith facts --offline"
STYLES = {"holds": "green", "wrong": "bold red", "not checked": "yellow"}


def run(*, request: FactsRequest, json: JsonOption = False) -> None:
    """Check the catalog: GPUs against ptxas and LLVM, flags against gcc, CPUs against archspec and LLVM.

    Each toolkit's ptxas is downloaded from PyPI (some 35 MB) and cached, as is the zig compiler for its LLVM
    (100 MB). Facts that no tool could check are counted at the end. The exit code is 1 when a fact is wrong.
    """
    proved = facts(request, Terminal())
    answer(proved, _print_checks, as_json=json)
    exit_if(not proved.ok)


def _print_checks(proved: FactsReport) -> None:
    """Every fact with its verdict, then the count, and what no tool was asked about."""
    headings = ("fact", "source", "verdict", "detail")
    rows = [
        (check.fact, check.tool, (check.outcome, STYLES[check.outcome]), check.detail)
        for check in proved.checks
    ]
    table(headings, rows, broken=("fact", "source", "detail"))
    counts = {name: sum(check.outcome == name for check in proved.checks) for name in STYLES}
    write(", ".join(f"{count} {name}" for name, count in counts.items()))
    kinds = ", ".join(f"{count} {kind}" for kind, count in proved.not_looked_at.items())
    write(f"not looked at: {counted(sum(proved.not_looked_at.values()), 'fact')} ({kinds})")
