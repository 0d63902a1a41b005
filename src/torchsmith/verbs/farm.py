"""`torchsmith farm check`: try each builder."""

from __future__ import annotations

from torchsmith.api.health import FarmCheckRequest, FarmReport, check_farm
from torchsmith.cli.console import answer, exit_if, next_build, paint, tell, write
from torchsmith.cli.group import Group
from torchsmith.cli.options import JsonOption

EXAMPLE = "torchsmith farm check"
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Check the builders: the machines in [bold][[builder]][/bold] of torchsmith.toml or in
    /etc/nix/machines.

    [bold]farm check[/bold] tests each: whether it answers, its system, features, free disk, and the
    instruction sets of its CPU. The exit code is 1 when a builder has a problem.
    """


@app.command("check", EXAMPLE)
def check(*, request: FarmCheckRequest, json: JsonOption = False) -> None:
    """Test each builder and say what is wrong."""
    report = check_farm(request)
    answer(report, _print_checked, as_json=json)
    exit_if(not report.ok)
    if not report.asked:
        tell('torchsmith.toml asks for nothing to build yet: profile = "real" would')
    elif report.workspace:
        next_build(workspace=request.workspace)


def _print_checked(report: FarmReport) -> None:
    """A line a builder, and a line a fault."""
    if not report.builders:
        tell("no builder is configured: Nix builds on this machine alone")
    for row in report.builders:
        mark = paint("✓ ", "green") if row.ok else paint("✗ ", "bold red")
        facts = ""
        if row.system:
            runs = ", ".join(row.isas) or "no instruction set of the catalog"
            facts = f"  {row.system}, {row.free_gb:.0f} GB free, {row.memory_gb:.0f} GB memory, runs {runs}"
        write(mark + row.builder + paint(facts, "dim"))
        for fault in row.faults:
            write(f"    {fault}", "red")
