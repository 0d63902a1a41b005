"""`torchsmith verify PATH or NAME`: what a build really holds, and whether it keeps its name's promise."""

from __future__ import annotations

from pathlib import Path

from torchsmith.api.artifact import VerifyRequest, verify
from torchsmith.cli.console import answer, exit_if, next_step
from torchsmith.cli.options import JsonOption, SvgOption
from torchsmith.cli.terminal import Terminal
from torchsmith.nix.tool import in_own_store
from torchsmith.verbs.artifact_view import print_verified
from torchsmith.verbs.svg import check_svg, write_svg
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith verify sample --variant pytorch-python313-cuda13_0-sm120-avx512"


def run(
    *,
    request: VerifyRequest,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Read a build: which GPUs and CPUs it serves, and whether it is what its name promises.

    The variant is taken from the path where the path names one. Nothing is run and no GPU is needed:
    libraries of either CPU architecture are read on any machine. The exit code is 1 when something is wrong.
    """
    check_svg(svg)
    verified = verify(request, Terminal())
    report = verified.report
    answer(verified, print_verified, as_json=json)
    if report.ok and Path(report.path).is_dir() and not in_own_store(Path(report.path)):
        next_step("test", str(request.path), workspace=request.workspace, why="run it, on this machine")
    if svg is not None:
        from torchsmith.page.pictures import verify_picture

        write_svg(verify_picture(report, open_workspace(request.workspace).catalog), svg)
    exit_if(not report.ok)
