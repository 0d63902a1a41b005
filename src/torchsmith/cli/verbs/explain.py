"""`torchsmith explain NAME`: why a cell is allowed or not."""

from __future__ import annotations

from torchsmith.api.options import JsonOption, Name, WorkspaceOption
from torchsmith.cli.console import answer, exit_if, next_step, paint, write
from torchsmith.matrix.describe import Explanation, explain

EXAMPLE = "torchsmith explain pytorch-python313-cuda13_0-sm103-avx2"
STYLES = {"accepted": "green", "accepted with a warning": "yellow", "rejected": "red"}


def run(name: Name, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Say whether a cell can be built and used, why or why not, and which cells near it can.

    A GPU's architecture or a product's name (sm89, 'RTX 4090') tells for which CUDA releases builds exist.
    The exit code is 1 for a cell that cannot be built, and for a GPU without any.
    """
    from torchsmith.catalog.names import hardware_hint
    from torchsmith.cli.gpu_view import print_gpu, report_gpu
    from torchsmith.matrix import BadName, Variant
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    if gpu := report_gpu(name, opened.catalog):
        answer(gpu, print_gpu, as_json=json)
        exit_if(not any(text.startswith("torch") for text in gpu.cuda.values()))
        return
    try:
        variant = Variant.parse(name, opened.catalog)
    except BadName as problem:
        hints = (hardware_hint(word, opened.catalog) for word in (name, *name.split("-")))
        problem.hint = next(filter(None, hints), problem.hint)
        raise
    found = explain(name, opened.catalog, opened.line_of(variant), opened.standing(variant))
    answer(found, _print_verdict, as_json=json)
    exit_if(found.verdict == "rejected")
    if opened.root is None:
        next_step("init", "mine", "--cell", name, why="a workspace for it")
    elif name in {cell.name for cell in opened.matrix.cells}:
        next_step("build", name, workspace=workspace)


def _print_verdict(found: Explanation) -> None:
    """The verdict, its reasons, and where to go instead."""
    write(paint(f"{found.name}: ", "bold") + paint(found.verdict, STYLES[found.verdict]))
    for reason in found.reasons:
        write(f"  {reason}")
    for text in found.old_spelling:
        write(f"  spelling: {text}")
    if found.standing:
        write(f"  {found.standing}")
    if found.nearest:
        write("nearest cells that can be built and used:")
        for name in found.nearest:
            write(f"  {name}")
