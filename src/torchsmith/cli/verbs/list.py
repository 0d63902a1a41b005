"""`torchsmith list`: the matrix, as a grid, names or JSON."""

from __future__ import annotations

import sys
from typing import Annotated

from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.params import Option

EXAMPLE = "torchsmith list sm120 'avx512*'"


def run(
    selectors: Selectors = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    names: Annotated[bool, Option("Print one name a line.")] = False,
    left_out: Annotated[bool, Option("Print the cells that are left out, each with its reason.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the variants of the matrix, as a grid of GPUs and instruction sets.

    Words about the same axis are alternatives, words about different axes must all hold:
    [bold]sm90 sm120 avx2[/bold] is both GPUs with AVX2. [bold]![/bold] leaves out.
    """
    from torchsmith.cli import matrix_view as view
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace, profile)
    matrix = opened.select(selectors or [])
    if left_out:
        view.print_left_out(view.left_out_rows(opened, matrix), as_json=json)
    elif names:
        sys.stdout.write("".join(f"{cell.name}\n" for cell in matrix.cells))
    elif json:
        view.print_cells(matrix, opened.catalog)
    else:
        view.print_grid(matrix, opened)
        if matrix.cells:
            from torchsmith.cli.next_step import next_step

            if opened.root is None:
                next_step("init", "builds", why="a workspace of your own, to change")
            elif not any(opened.root.glob("build-*")):
                next_step("generate", workspace=workspace)
    if not matrix.cells and not left_out:
        from torchsmith.cli.paint import warn

        warn("every cell is left out; torchsmith list --left-out says why")
        raise SystemExit(1)
