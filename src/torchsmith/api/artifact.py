"""What a build is: read on any machine, or run on this one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from torchsmith.artifact import report as artifact
from torchsmith.artifact.verdict import promised
from torchsmith.building.by_name import build_named, build_to_run, derivation_of, is_name
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.options import VariantOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.samples import or_sample
from torchsmith.workspace.load import open_workspace

if TYPE_CHECKING:
    from torchsmith.artifact.smoke_test import SmokeTest


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """Which build to read, and what it should be."""

    path: Annotated[
        Path,
        Argument(
            "A cell's name, a result link, a store path, a wheel, a site-packages folder, one .so,"
            " or the word sample.",
            metavar="PATH",
        ),
    ]
    variant: VariantOption = None
    no_cpu: Annotated[bool, Option("Skip the CPU code (faster).")] = False
    workspace: WorkspaceOption = None
    against: Annotated[Path | None, Option("Another artifact, to show what this one saves.")] = None


class VerifyReport(msgspec.Struct, frozen=True):
    """What a build holds against its promise, and against another build where one is named."""

    report: artifact.Report
    comparison: artifact.Comparison | None = None


def verify(request: VerifyRequest, reporter: Reporter = SILENT) -> VerifyReport:
    """Which GPUs and CPUs a build serves, and whether it is what its variant's name promises.

    What was found of a cell's last build is written down for `publish` and the page; `reporter` is told why
    that could not be.
    """
    opened = open_workspace(request.workspace)
    named = or_sample(request.path, "build")
    path = build_named(named, opened)
    by_name = is_name(named) and path != named
    variant = request.variant or (named.name if by_name else None)
    promise = promised(variant, path, opened.catalog)
    derivation = derivation_of(path, variant, opened) if variant else ""
    against = build_named(or_sample(request.against, "build"), opened) if request.against else None
    cpu, catalog, other = not request.no_cpu, opened.catalog, None
    with reporter.reading() as progress:
        report = artifact.verify(path, promise, catalog, progress, cpu=cpu, derivation=derivation)
        if against is not None:
            other = artifact.verify(against, None, catalog, progress, cpu=cpu)
    # All that a cell's name promises was judged.
    complete = by_name and not request.variant and not request.no_cpu
    if complete and opened.root is not None:
        from torchsmith.page.past import record_verdict

        if why := record_verdict(report, named.name, opened.root, catalog):
            reporter.note(f"not written down: {why}")
    return VerifyReport(report, artifact.compare(report, other) if other else None)


@dataclass(frozen=True, kw_only=True)
class TestRequest:
    """Which build to run, with which Python, and for how long."""

    path: Annotated[
        Path,
        Argument(
            "A cell's name, a result link, a store path, a site-packages folder, or the word sample.",
            metavar="PATH",
        ),
    ]
    variant: VariantOption = None
    python: Annotated[
        Path | None, Option("The Python to run it with; by default the one among its inputs.")
    ] = None
    timeout: Annotated[float, Option("Stop after this many seconds.", min=1)] = 600
    workspace: WorkspaceOption = None


def test(request: TestRequest) -> SmokeTest:
    """Import a built package and use it on the CPU and every GPU, in a process of its own."""
    from torchsmith.artifact.interpreter import interpreter_for
    from torchsmith.artifact.smoke_test import smoke_test

    opened = open_workspace(request.workspace)
    word = or_sample(request.path, "build")
    # A toy runs with any Python.
    python = request.python or (Path(sys.executable) if word != request.path else None)
    path = build_to_run(word, opened)
    variant = request.variant or (word.name if is_name(word) and path != word else None)
    promise = promised(variant, path, opened.catalog)
    interpreter = interpreter_for(path, opened.catalog, python)
    return smoke_test(path, interpreter, promise, opened.catalog, request.timeout)
