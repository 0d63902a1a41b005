"""`torchsmith facts`: the catalog proved against tools that nobody here wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith facts --offline"


def run(
    cuda: Annotated[
        list[str] | None, typer.Option("--cuda", help="Check this CUDA release; may be given again.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing; use what is cached.")] = False,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Prove the catalog: GPU targets against ptxas, flags against gcc, CPUs against archspec.

    Each toolkit's ptxas comes from PyPI (some 35 MB) and is kept in the cache. The exit code is 1 when a fact
    is wrong.
    """
    from torchsmith.catalog.proof.checks import check_catalog
    from torchsmith.catalog.proof.readings import read_tools
    from torchsmith.cli.console import err, print_json
    from torchsmith.cli.facts_view import chosen_toolkits, print_checks
    from torchsmith.workspace.load import open_workspace

    catalog = open_workspace(workspace).catalog
    toolkits = chosen_toolkits(catalog, cuda)
    with err().status("reading tools") as status:
        readings = read_tools(
            toolkits, download=not offline, watch=lambda what: status.update(f"asking {what}")
        )
        checks = check_catalog(catalog, readings)
    if json:
        print_json(checks)
    else:
        print_checks(checks)
    if any(check.outcome == "wrong" for check in checks):
        raise typer.Exit(1)
