"""`torchsmith farm check`: try each builder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.building.farm import BuilderRow, check_builder
from torchsmith.cli.console import answer, exit_if, next_step, paint, tell, write
from torchsmith.cli.group import Group
from torchsmith.core.problem import NotFound

EXAMPLE = "torchsmith farm check"
app = Group(EXAMPLE)


class FarmDocument(msgspec.Struct, frozen=True):
    """The builders that were tried."""

    builders: Sequence[BuilderRow]


@app.describe
def run() -> None:
    """The builders: machines that [bold][[builder]][/bold] in torchsmith.toml names, or /etc/nix/machines.

    [bold]farm check[/bold] tries each: reachable, its system, features, free disk, and the instruction sets
    that its CPU runs. The exit code is 1 when something is wrong with one.
    """


@app.command("check", EXAMPLE)
def check(
    workspace: WorkspaceOption = None,
    machines: Annotated[Path | None, Option("Another list of machines, in Nix' format.")] = None,
    json: JsonOption = False,
) -> None:
    """Try each builder, and say what is wrong in words."""
    from concurrent.futures import ThreadPoolExecutor

    from torchsmith.building.farm import MACHINES, configured
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    rows = () if machines else opened.settings.builder
    if machines and not machines.is_file():
        raise NotFound(f"there is no {machines}")
    builders = configured(rows, machines or MACHINES)
    if not builders:
        tell("no builder is configured: Nix builds on this machine alone")
    with ThreadPoolExecutor(8) as pool:
        checked = list(pool.map(lambda builder: check_builder(builder, opened.catalog), builders))
    answer(FarmDocument(checked), _print_checked, as_json=json)
    exit_if(not all(one.ok for one in checked))
    if opened.root is not None:
        next_step("build", "--dry-run", workspace=workspace, why="what would it take?")


def _print_checked(farm: FarmDocument) -> None:
    """A line a builder, and a line a fault."""
    for one in farm.builders:
        mark = paint("✓ ", "green") if one.ok else paint("✗ ", "bold red")
        facts = ""
        if one.system:
            runs = ", ".join(one.isas) or "no instruction set of the catalog"
            facts = f"  {one.system}, {one.free_gb:.0f} GB free, {one.memory_gb:.0f} GB memory, runs {runs}"
        write(mark + one.builder + paint(facts, "dim"))
        for fault in one.faults:
            write(f"    {fault}", "red")
