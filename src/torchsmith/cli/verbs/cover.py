"""`torchsmith cover FLEET`: which variants to build for many machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.cli.console import exit_if, next_step, print_json, warn
from torchsmith.cli.host_options import PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, SvgOption, WorkspaceOption, check_svg
from torchsmith.cli.params import Argument, Option
from torchsmith.edge.problem import by_name

EXAMPLE = "torchsmith cover sample --curve 6"


def run(
    fleet: Annotated[
        Path,
        Argument(
            "A CSV or JSON file (name, count, weight, system, cpu, isa, features, gpu, sm, driver),"
            " what scontrol, kubectl or Ansible print, a folder of reports, or the word sample.",
            metavar="FLEET",
        ),
    ],
    selectors: Selectors = None,
    best: Annotated[int, Option("The best plan with so many variants.", min=0)] = 0,
    curve: Annotated[int, Option("Show best plans up to this size.", min=0)] = 0,
    must: Annotated[list[str] | None, Option("A variant that must be chosen.")] = None,
    must_not: Annotated[list[str] | None, Option("A variant that must not be chosen.")] = None,
    package: PackagesOption = None,
    workload: WorkloadOption = "general",
    write: Annotated[Path | None, Option("Write the plan as a torchsmith.toml.", metavar="FILE")] = None,
    force: Annotated[bool, Option("Replace the file of --write.")] = False,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Choose the fewest variants that serve every machine of a fleet, or the best few, proved optimal.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where a machine is not served or an entry of the inventory could not be read.
    """
    from torchsmith.cli import cover_view as view
    from torchsmith.host.cover import Cover
    from torchsmith.host.fleet import read_fleet
    from torchsmith.host.matrix_file import check_free, write_matrix
    from torchsmith.workspace.load import open_workspace, read_as

    check_svg(svg)
    if write is not None:
        check_free(write, replace=force)
    opened = open_workspace(workspace, profile, alone="wide")
    catalog, cells = opened.catalog, opened.select(selectors or []).cells
    machines = read_fleet(fleet, catalog)
    kind = by_name("workload", workload, catalog.workloads)
    cover = Cover(machines, cells, catalog, kind, must or (), must_not or (), package or ())
    plan = cover.best(best) if best else cover.fewest()
    plans = cover.curve(curve) if curve else ()
    if json:
        print_json(view.cover_json(cover, plan, plans))
    else:
        view.print_answer(cover, plan, plans, limited=best > 0)
    view.draw(cover, plan, plans, svg)
    if write is not None:
        chosen = cover.with_companions(plan.cells)
        write_matrix(write, chosen, f"Chosen by torchsmith cover for {fleet.name}.", read_as, replace=force)
    if not json and plan.cells:
        _say_next(write)
    exit_if(plan.unserved or machines.unread)


def _say_next(written: Path | None) -> None:

    if written is None:
        next_step("cover", *sys.argv[2:], "--write", "builds/torchsmith.toml", why="as a workspace")
        return
    warn(f"written: {written}")
    next_step("generate", workspace=written.parent if written.name == "torchsmith.toml" else written)
