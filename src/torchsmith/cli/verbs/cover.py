"""`torchsmith cover FLEET`: which variants to build for many machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.cli.host_options import PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, SvgOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith cover sample --curve 6"
MatrixFileOption = Annotated[
    Path | None, Option("--write", metavar="FILE", help="Write the plan as a torchsmith.toml.")
]


def run(
    fleet: Annotated[
        Path,
        Argument(
            metavar="FLEET",
            help="A CSV or JSON file (name, count, weight, system, cpu, isa, features, gpu, sm, driver),"
            " what scontrol, kubectl or Ansible print, a folder of reports, or the word sample.",
        ),
    ],
    selectors: Selectors = None,
    best: Annotated[int, Option("--best", min=0, help="The best plan with so many variants.")] = 0,
    curve: Annotated[int, Option("--curve", min=0, help="Show best plans up to this size.")] = 0,
    must: Annotated[list[str] | None, Option("--must", help="A variant that must be chosen.")] = None,
    must_not: Annotated[
        list[str] | None, Option("--must-not", help="A variant that must not be chosen.")
    ] = None,
    package: PackagesOption = None,
    workload: WorkloadOption = "general",
    write: MatrixFileOption = None,
    force: Annotated[bool, Option("--force", help="Replace the file of --write.")] = False,
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
    from torchsmith.cli.console import print_json
    from torchsmith.edge.problem import by_name
    from torchsmith.host.cover import Cover, Pins, catalog_estimates
    from torchsmith.host.fleet import read_fleet
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import open_workspace, read_as

    opened = open_workspace(workspace, profile, alone="wide")
    catalog, cells = opened.catalog, opened.select(selectors or []).cells
    machines = read_fleet(fleet, catalog)
    pins = Pins(tuple(must or ()), tuple(must_not or ()))
    kind = by_name("workload", workload, catalog.workloads)
    cover = Cover(machines, cells, catalog, kind, catalog_estimates(catalog), pins, package or ())
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
    if plan.unserved or machines.unread:
        raise SystemExit(1)


def _say_next(written: Path | None) -> None:
    from torchsmith.cli.next_step import next_step
    from torchsmith.cli.paint import warn

    if written is None:
        next_step("cover", *sys.argv[2:], "--write", "builds/torchsmith.toml", why="as a workspace")
        return
    warn(f"written: {written}")
    next_step("generate", workspace=written.parent if written.name == "torchsmith.toml" else written)
