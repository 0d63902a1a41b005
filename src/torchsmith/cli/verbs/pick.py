"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.cli.host_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.params import Option

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"


def run(
    selectors: Selectors = None,
    *,
    machine: MachineOptions,
    workload: WorkloadOption = "general",
    package: PackagesOption = None,
    org: Annotated[str, Option("The Flox organisation that publishes; else `org` of torchsmith.toml.")] = "",
    manifest: Annotated[
        bool, Option("Print the manifest.toml of a Flox environment that installs it.")
    ] = False,
    explain: Annotated[bool, Option("Say of every candidate why not.")] = False,
    names: Annotated[bool, Option("Print the chosen names alone.")] = False,
    create: Annotated[
        Path | None, Option("Write what is missing as a torchsmith.toml.", metavar="FILE")
    ] = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one that reports or options describe.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where no variant runs, or none uses a GPU that is there.
    """
    from torchsmith.cli import pick_view as view
    from torchsmith.cli.console import print_json
    from torchsmith.cli.host_view import print_notes
    from torchsmith.edge.problem import by_name
    from torchsmith.host.commands import stand_here
    from torchsmith.host.pick import pick
    from torchsmith.workspace.load import open_workspace

    if create is not None:
        from torchsmith.host.matrix_file import check_free

        check_free(create)
    opened = open_workspace(workspace, profile, alone="wide")
    catalog = opened.catalog
    facts = machine.facts(catalog)
    whole = bool(opened.root or selectors or package)  # of a matrix of ours torch's part is enough
    cells = opened.select(selectors or []).cells if whole else opened.cells_of(catalog.torch)
    use = by_name("workload", workload, catalog.workloads)
    answer = pick(facts, cells, catalog, use, package or (), None if whole else opened.has)
    here = stand_here(opened.root, org or opened.settings.org)
    if manifest:
        view.print_manifest(answer, catalog, here.org)
    elif names:
        sys.stdout.write("".join(f"{one.fit.variant.name}\n" for one in answer.choice.variants))
    elif json:
        print_json(view.pick_json(answer, catalog, here))
    else:
        view.print_pick(answer, catalog, here, opened.adds)
        if explain:
            view.print_explanations(answer, catalog)
        print_notes(answer.facts)
    if create is not None:
        view.create(create, answer, catalog)
    if not answer.served:
        raise SystemExit(1)
