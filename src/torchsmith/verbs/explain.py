"""`torchsmith explain NAME`: why a cell is allowed or not."""

from __future__ import annotations

from torchsmith.api.describing import CellRequest, GpuReport, explain
from torchsmith.cli.console import answer, exit_if, next_step, paint, write
from torchsmith.cli.options import JsonOption
from torchsmith.matrix.describe import Explanation
from torchsmith.verbs.show import print_gpu
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith explain pytorch-python313-cuda13_0-sm103-avx2"
STYLES = {"accepted": "green", "accepted with a warning": "yellow", "rejected": "red"}


def run(*, request: CellRequest, json: JsonOption = False) -> None:
    """Explain why a cell can or cannot be built and used, and which similar cells can.

    For a GPU architecture or a product (sm89, 'RTX 4090'): which CUDA releases have builds for it. The exit
    code is 1 for a cell that cannot be built and for a GPU without builds.
    """
    report = explain(request)
    if isinstance(report, GpuReport):
        answer(report, print_gpu, as_json=json)
        if report.builds:
            next_step("pick", "--gpu", request.name, why="the build for a machine with it")
        exit_if(not report.builds)
        return
    answer(report, _print_verdict, as_json=json)
    exit_if(report.verdict == "rejected")
    opened = open_workspace(request.workspace)
    if opened.root is None and not report.nearest:
        next_step("init", "mine", "--cell", request.name, why="a workspace for it")
    elif opened.root and request.name in {cell.name for cell in opened.matrix.cells}:
        next_step("build", request.name, workspace=request.workspace)


def _print_verdict(report: Explanation) -> None:
    """The verdict, its reasons, and where to go instead."""
    write(paint(f"{report.name}: ", "bold") + paint(report.verdict, STYLES[report.verdict]))
    for reason in report.reasons:
        write(f"  {reason}")
    for text in report.old_spelling:
        write(f"  spelling: {text}")
    if report.standing:
        write(f"  {report.standing}")
    if report.nearest:
        write("nearest cells that can be built and used:")
        for name in report.nearest:
            write(f"  {name}")
