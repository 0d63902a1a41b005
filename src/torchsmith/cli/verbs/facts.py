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
    """Prove the catalog: GPU targets against ptxas, flags against gcc, CPUs against archspec and LLVM.

    Each toolkit's ptxas comes from PyPI (some 35 MB) and is kept in the cache, and so does LLVM as the zig
    compiler has it (100 MB). What no tool was asked about is counted at the end. The exit code is 1 when a
    fact is wrong.
    """
    from torchsmith.catalog.proof.checks import check_catalog, not_looked_at
    from torchsmith.catalog.proof.readings import read_tools
    from torchsmith.cli.console import err, print_json
    from torchsmith.cli.facts_view import FactsDocument, chosen_toolkits, print_checks
    from torchsmith.workspace.load import open_workspace

    catalog = open_workspace(workspace).catalog
    toolkits = chosen_toolkits(catalog, cuda)
    with err().status("reading tools") as status:
        readings = read_tools(
            toolkits, download=not offline, watch=lambda what: status.update(f"asking {what}")
        )
        checks = check_catalog(catalog, readings)
    if json:
        print_json(FactsDocument(checks, not_looked_at(catalog)))
    else:
        print_checks(checks, not_looked_at(catalog))
    if any(check.outcome == "wrong" for check in checks):
        raise typer.Exit(1)
