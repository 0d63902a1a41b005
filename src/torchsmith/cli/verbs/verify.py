"""`torchsmith verify PATH or NAME`: what a build really holds, and whether it keeps its name's promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.api.artifact import VerifyRequest, verify
from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption, SvgOption
from torchsmith.cli.console import exit_if, next_step, print_json, warn
from torchsmith.cli.svg import check_svg, write_svg

EXAMPLE = "torchsmith verify sample --variant pytorch-python313-cuda13_0-sm120-avx512"


def run(
    *,
    request: VerifyRequest,
    against: Annotated[Path | None, Option("Another artifact: say what this one saves over it.")] = None,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Say which GPUs and CPUs a build serves, and whether it is what its variant's name promises.

    The variant is read from the path where it is part of it. Nothing is run and no GPU is needed: libraries
    of either CPU architecture are read on any machine. The exit code is 1 when something is wrong.
    """
    from torchsmith.api.by_name import build_named
    from torchsmith.api.samples import or_sample
    from torchsmith.artifact import report as artifact
    from torchsmith.cli.artifact_view import VerifyDocument, print_comparison, print_report
    from torchsmith.cli.progress import reading_bar
    from torchsmith.workspace.load import open_workspace

    check_svg(svg)
    opened = open_workspace(request.workspace)
    path = build_named(or_sample(against, "build"), opened) if against else None
    with reading_bar() as progress:
        report = verify(request, progress, lambda why: warn(f"not written down: {why}"))
        other = (
            artifact.verify(path, None, opened.catalog, progress, cpu=not request.no_cpu) if path else None
        )
    comparison = artifact.compare(report, other) if other else None
    if json:
        print_json(VerifyDocument(report, comparison))
    else:
        print_report(report)
        if comparison:
            print_comparison(comparison)
        if report.ok and Path(report.path).is_dir():
            words = ("test", str(request.path))
            next_step(*words, workspace=request.workspace, why="run it, on this machine")
    if svg is not None:
        from torchsmith.page.pictures import verify_picture

        write_svg(verify_picture(report, opened.catalog), svg)
    exit_if(not report.ok)
