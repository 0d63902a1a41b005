"""`torchsmith verify PATH or NAME`: what a build really holds, and whether it keeps its name's promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.cli.console import exit_if, next_step, print_json, warn
from torchsmith.cli.options import JsonOption, SvgOption, VariantOption, WorkspaceOption, check_svg, write_svg
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith verify sample --variant pytorch-python313-cuda13_0-sm120-avx512"

Artifact = Annotated[
    Path,
    Argument(
        "A cell's name, a result link, a store path, a wheel, a site-packages folder, one .so,"
        " or the word sample.",
        metavar="PATH",
    ),
]


def run(
    path: Artifact,
    variant: VariantOption = None,
    against: Annotated[Path | None, Option("Another artifact: say what this one saves over it.")] = None,
    no_cpu: Annotated[bool, Option("Leave the CPU code out: faster.")] = False,
    workspace: WorkspaceOption = None,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Say which GPUs and CPUs a build serves, and whether it is what its variant's name promises.

    The variant is read from the path where it is part of it. Nothing is run and no GPU is needed: libraries
    of either CPU architecture are read on any machine. The exit code is 1 when something is wrong.
    """
    from torchsmith.api.by_name import build_and_name, build_named, derivation_of
    from torchsmith.api.samples import or_sample
    from torchsmith.artifact.report import compare, verify
    from torchsmith.artifact.verdict import promised
    from torchsmith.cli.artifact_view import VerifyDocument, print_comparison, print_report
    from torchsmith.cli.progress import reading_bar
    from torchsmith.workspace.load import open_workspace

    check_svg(svg)
    opened = open_workspace(workspace)
    word, given = path, variant
    named = or_sample(path, "build")
    path, variant = build_and_name(named, variant, opened)
    against = build_named(or_sample(against, "build"), opened) if against else None
    promise = promised(variant, path, opened.catalog)
    derivation = derivation_of(path, variant, opened) if variant else ""
    with reading_bar() as progress:
        report = verify(path, promise, opened.catalog, progress, cpu=not no_cpu, derivation=derivation)
        other = verify(against, None, opened.catalog, progress, cpu=not no_cpu) if against else None
    comparison = compare(report, other) if other else None
    if json:
        print_json(VerifyDocument(report, comparison))
    else:
        print_report(report)
        if comparison:
            print_comparison(comparison)
        if report.ok and path.is_dir():
            next_step("test", str(word), workspace=workspace, why="run it, on this machine")
    whole = path != named and not given and not no_cpu  # all that a cell's name promises was judged
    if whole and opened.root is not None:
        from torchsmith.api.verified import keep

        if why := keep(report, named.name, opened.root, opened.catalog):
            warn(f"not written down: {why}")
    if svg is not None:
        from torchsmith.page.pictures import verify_picture

        write_svg(verify_picture(report, opened.catalog), svg)
    exit_if(not report.ok)
