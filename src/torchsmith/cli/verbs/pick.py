"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.host_options import (
    CpuOption,
    DriverOption,
    FeaturesOption,
    FromOption,
    GpuOption,
    IsaOption,
    LimitOption,
    SystemOption,
    WorkloadOption,
)
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption

EXAMPLE = "torchsmith pick --profile wide --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"


def run(
    selectors: Selectors = None,
    from_: FromOption = None,
    workload: WorkloadOption = "general",
    system: SystemOption = "",
    cpu: CpuOption = "",
    isa: IsaOption = "",
    features: FeaturesOption = "",
    gpu: GpuOption = None,
    driver: DriverOption = "",
    time_limit: LimitOption = 10.0,
    package: Annotated[
        str, typer.Option("--package", help="The package to pick; else torch where the matrix has it.")
    ] = "",
    org: Annotated[str, typer.Option("--org", help="The Flox organisation that publishes.")] = "ORG",
    explain: Annotated[bool, typer.Option("--explain", help="Say of every candidate why not.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Print the chosen names alone.")] = False,
    create: Annotated[
        Path | None,
        typer.Option("--create", metavar="FILE", help="Write what is missing as a torchsmith.toml."),
    ] = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one that reports or options describe.

    The exit code is 1 where no variant runs, or none uses a GPU that is there.
    """
    from torchsmith.cli.console import print_json, warn
    from torchsmith.cli.host_view import print_notes
    from torchsmith.cli.pick_view import pick_json, print_explanations, print_pick
    from torchsmith.host.detect import ThisMachine
    from torchsmith.host.gather import gather
    from torchsmith.host.given import Given
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.host.pick import find_package, find_workload, pick
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace, profile)
    catalog = opened.catalog
    given = Given(system, cpu, isa, features, "; ".join(gpu or []), "", driver)
    facts = gather(from_ or [], given, catalog, ThisMachine(), time_limit)
    wanted = find_package(package, catalog) if package else None
    cells = opened.select(selectors or []).cells
    answer = pick(facts, cells, catalog, find_workload(workload, catalog), wanted)
    file = opened.source.name if opened.root else ""
    if names:
        sys.stdout.write("".join(f"{one.fit.variant.name}\n" for one in answer.choice.variants))
    elif json:
        print_json(pick_json(answer, catalog, org, file))
    else:
        print_pick(answer, catalog, org, file)
        if explain:
            print_explanations(answer, catalog)
        print_notes(answer.facts)
    if create is not None:
        write_matrix(
            create, answer.missing_cells(catalog), "What torchsmith pick found missing.", replace=False
        )
        warn(f"written: {create}")
    if not answer.served:
        raise typer.Exit(1)
