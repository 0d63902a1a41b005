"""`torchsmith verify`: read a build, and check it against its name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.artifact import report as artifact
from torchsmith.artifact.check import Check, megabytes
from torchsmith.artifact.report import Comparison, CpuSummary, KindRow, Report
from torchsmith.artifact.verdict import promised
from torchsmith.building.by_name import derivation_of, find_build
from torchsmith.cli.console import answer, columns, exit_if, next_step, paint, table, write
from torchsmith.cli.options import JsonOption, VariantOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.cli.samples import or_sample
from torchsmith.core.problem import Problem
from torchsmith.core.text import counted
from torchsmith.nix.tool import in_own_store, stored
from torchsmith.publishing.verified import verdict_of
from torchsmith.record import open_record
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith verify sample --variant pytorch-python313-cuda13_0-sm120-avx512"
MOST_LIBRARIES = 40  # rows; JSON has all
MARKS = {"right": ("✓", "green"), "wrong": ("✗", "red"), "note": ("▲", "yellow"), "unjudged": ("?", "yellow")}
WAYS = {
    "native": "run natively",
    "jit": "compile at first start",
    "partly": "are served in part",
    "no": "cannot",
}


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(Request):
    """Which build to read, and what it should be."""

    path: Annotated[
        Path,
        Argument(
            "A build's name (REPO/NAME if two repositories have it), a result link, a store path, a wheel,"
            " a site-packages folder, one .so, or the word sample.",
            metavar="PATH",
        ),
    ]
    variant: VariantOption = None
    no_cpu: Annotated[bool, Option("Skip the CPU code (faster).")] = False
    workspace: WorkspaceOption = None
    against: Annotated[Path | None, Option("Another artifact, to show what this one saves.")] = None


class VerifyReport(msgspec.Struct, frozen=True):
    """What a build contains, checked against its name, and compared with another build."""

    FORMAT: ClassVar[int] = 2
    report: Report
    comparison: Comparison | None = None


def verify(request: VerifyRequest, reporter: Reporter = SILENT) -> VerifyReport:
    """Return which GPUs and CPUs a build serves, and whether it is what its name promises.

    The verdict on the last build of a recipe is recorded for `publish` and the page.
    """
    opened = open_workspace(request.workspace)
    found = find_build(or_sample(request.path, "build"), opened)
    path = found.path
    promise = promised(request.variant or found.cell, path, opened.catalog)
    derivation = derivation_of(path, request.variant or found.name, opened)
    against = find_build(or_sample(request.against, "build"), opened).path if request.against else None
    cpu, catalog, other = not request.no_cpu, opened.catalog, None
    name = opened.line_of(promise) if promise is not None and opened.root is not None else None
    line = catalog.lines[name] if name else None
    with reporter.progress() as progress:
        report = artifact.verify(path, promise, catalog, progress, cpu=cpu, derivation=derivation, line=line)
        if against is not None:
            other = artifact.verify(against, None, catalog, progress, cpu=cpu)
    complete = found.name and not request.variant and not request.no_cpu
    if complete and opened.root is not None:
        try:
            _record(report, found.name, opened.root)
        except Problem as problem:
            reporter.note(f"the verdict was not recorded: {problem.message}")
    return VerifyReport(report, artifact.compare(report, other) if other else None)


def _record(report: Report, name: str, root: Path) -> None:
    """Record the verdict on the last build of a recipe, unless something could not be judged."""
    if report.ok and not report.verified:
        return
    with closing(open_record(root)) as record:
        built = record.built(name)
        if built and built.outputs and stored(built.outputs[0]).resolve() == Path(report.path).resolve():
            record.note_verdict(verdict_of(report, name, built.outputs[0], built.derivation))


def run(*, request: VerifyRequest, json: JsonOption = False) -> None:
    """Read a build: which GPUs and CPUs it serves, and whether it is what its name promises.

    The name is taken from the path if the path has one. Nothing is run and no GPU is needed:
    libraries of either CPU architecture are read on any machine. The exit code is 1 if something is wrong.
    """
    verified = verify(request, Terminal())
    report = verified.report
    answer(verified, _print_verified, as_json=json)
    if report.ok and Path(report.path).is_dir() and not in_own_store(Path(report.path)):
        next_step("test", str(request.path), workspace=request.workspace, why="run it on this machine")
    exit_if(not report.ok)


def _print_verified(verified: VerifyReport) -> None:
    report = verified.report
    write(f"{report.path} ({report.kind}, {megabytes(report.sizes.total)})", "bold")
    columns([row for row in _rows(report) if row[1]], ("cyan",))
    if report.gpu:
        _print_gpu_code(report)
    if len(report.gpu_by_library) > 1:
        libraries = [(name, ", ".join(code)) for name, code in report.gpu_by_library.items()]
        rows = libraries[:MOST_LIBRARIES]
        if more := len(libraries) - len(rows):
            rows.append((f"and {more} more", ""))
        table(("library", "GPU code"), rows, broken=("GPU code",))
    print_checks(report.checks)
    write(*_verdict(report))
    if verified.comparison:
        _print_comparison(verified.comparison)


def _rows(report: Report) -> list[tuple[str, str]]:
    magma = report.magma or "none" if report.gpu else ""
    versions = ", ".join(f"{package} {version}" for package, version in report.versions.items())
    rows = [
        ("versions", versions),
        *report.releases.items(),
        ("Python", report.python),
        ("architecture", report.machine),
        ("BLAS", report.blas),
        ("MAGMA", magma),
        ("size", _sizes(report)),
    ]
    for verdict, title in WAYS.items():
        names = [f"{service.sm}" for service in report.services if service.verdict == verdict]
        rows.append((f"GPUs that {title}", ", ".join(names)))
    cpu = report.cpu
    if cpu:
        needs = ", ".join(cpu.features) + (f" (within {cpu.enough})" if cpu.features and cpu.enough else "")
        rows += [
            ("outside dispatch", needs or (f"any {report.machine} CPU" if _any_cpu(cpu) else "")),
            ("dispatched for", ", ".join(cpu.dispatched)),
            *((f"in {row.title}", _found(row)) for row in cpu.kinds),
            ("not all", "functions overlap, and not all were read" if not cpu.complete else ""),
            ("stripped", ", ".join(cpu.stripped)),
        ]
    elsewhere = [need.name for need in report.needs if need.found == "elsewhere"]
    return [*rows, ("from other packages", ", ".join(elsewhere))]


def _any_cpu(cpu: CpuSummary) -> bool:
    """Return whether all code that was read runs on every CPU."""
    return cpu.complete and not any(row.functions_by_feature for row in cpu.kinds)


def _found(row: KindRow) -> str:
    uses = ", ".join(f"{feature} in {count}" for feature, count in row.functions_by_feature.items())
    undecoded = f"; {row.undecoded} not decoded" if row.undecoded else ""
    return counted(row.functions, "function") + (f": {uses}" if uses else "") + undecoded


def _sizes(report: Report) -> str:
    sizes = report.sizes
    parts = {
        "GPU code": sizes.gpu_code,
        "rest of its libraries": sizes.own_libraries,
        "bundled libraries": sizes.bundled_libraries,
        "other files": sizes.other_files,
    }
    return ", ".join(f"{name} {megabytes(size)}" for name, size in parts.items() if size)


def _print_gpu_code(report: Report) -> None:
    figures = ("pieces", "size", f"of {counted(report.containers, 'container')}")
    rows = []
    for row in report.gpu:
        cells = (f"{row.kind} {row.target}", str(row.entries), megabytes(row.size), str(row.containers))
        style = "dim" if row.stray else ""
        rows.append([(text, style) for text in (*cells, "stray" if row.stray else "")])
    table(("GPU code", *figures, ""), rows, right=figures)


def print_checks(checks: Sequence[Check], indent: str = "") -> None:
    """Print each check, and its hint on the next line."""
    for check in checks:
        mark, style = MARKS[check.status]
        write(f"{indent}{paint(mark, style)} {paint(f'{check.id}:', 'bold')} {check.text}")
        if check.hint:
            write(f"{indent}    {check.hint}", "cyan")


def _verdict(report: Report) -> tuple[str, str]:
    if not report.ok:
        return f"wrong: {report.variant or report.path}", "bold red"
    if report.variant and not report.verified:
        unjudged = ", ".join(check.id for check in report.checks if check.status == "unjudged")
        return f"not verified: no fault found, but not everything could be checked ({unjudged})", "yellow"
    if report.variant:
        return f"it is what {report.variant} promises", "bold green"
    return "no fault found; --variant NAME checks it against a name", "green"


def _print_comparison(comparison: Comparison) -> None:
    """Print what one artifact saves compared with another."""
    write(f"against {comparison.other}", "bold")
    rows = []
    for row in comparison.sizes:
        sign = "-" if row.this > row.other else ""
        saved = f"{sign}{megabytes(abs(row.other - row.this))}"
        rows.append([row.part, megabytes(row.this), megabytes(row.other), saved])
    table(("part", "this", "other", "saved"), rows, right=("this", "other", "saved"))
    facts = {
        "GPU code only here": comparison.targets_gained,
        "GPU code only there": comparison.targets_dropped,
        "GPUs served only here": comparison.gpus_gained,
        "GPUs served only there": comparison.gpus_dropped,
    }
    columns([(label, ", ".join(names)) for label, names in facts.items() if names], ("cyan",))
    for difference in comparison.differences:
        write(difference)
