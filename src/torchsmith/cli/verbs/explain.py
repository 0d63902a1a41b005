"""`torchsmith explain NAME`: why a cell is allowed or not."""

from __future__ import annotations

from torchsmith.cli.options import JsonOption, Name, WorkspaceOption

EXAMPLE = "torchsmith explain pytorch-python313-cuda13_0-sm103-avx2"


def run(name: Name, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Say whether a cell can be built and used, why or why not, and which cells near it can.

    The exit code is 1 for a cell that cannot be built.
    """
    from torchsmith.catalog.names import hardware_hint
    from torchsmith.cli.cell_view import print_explanation
    from torchsmith.cli.console import answer
    from torchsmith.cli.next_step import next_step
    from torchsmith.matrix import BadName, Variant
    from torchsmith.matrix.describe import explain
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    try:
        variant = Variant.parse(name, opened.catalog)
    except BadName as problem:
        hints = (hardware_hint(word, opened.catalog) for word in (name, *name.split("-")))
        problem.hint = next(filter(None, hints), problem.hint)
        raise
    found = explain(name, opened.catalog, opened.line_of(variant), opened.standing(variant))
    answer(found, print_explanation, as_json=json)
    if found.verdict == "rejected":
        raise SystemExit(1)
    if not json:
        if opened.root is None:
            next_step("init", "mine", "--cell", name, why="a workspace for it")
        elif name in {cell.name for cell in opened.matrix.cells}:
            next_step("build", name, workspace=workspace)
