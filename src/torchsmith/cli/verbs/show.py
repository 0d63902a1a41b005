"""`torchsmith show NAME`: everything known about a cell."""

from __future__ import annotations

from torchsmith.cli.options import JsonOption, Name, WorkspaceOption

EXAMPLE = "torchsmith show pytorch-python313-cuda13_0-sm120-avx512"


def run(name: Name, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Show everything known about a cell: flags, GPUs, CPUs, drivers, pins, versions, warnings."""
    from torchsmith.cli.cell_view import print_description
    from torchsmith.cli.console import answer
    from torchsmith.matrix import Variant
    from torchsmith.matrix.describe import describe
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    variant = Variant.parse(name, opened.catalog)
    description = describe(variant, opened.catalog, opened.line_of(variant))
    answer(description, print_description, as_json=json)
