"""A built artifact for people: what `verify` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchsmith.api.artifact import VerifyReport
from torchsmith.artifact.check import Check, megabytes
from torchsmith.artifact.report import Comparison, KindRow, Report
from torchsmith.cli.console import columns, paint, table, write
from torchsmith.core.process import find, run
from torchsmith.core.text import counted

MOST_LIBRARIES = 40  # rows; JSON has all
MARKS = {"right": ("✓", "green"), "wrong": ("✗", "red"), "note": ("▲", "yellow"), "unjudged": ("?", "yellow")}
WAYS = {
    "native": "run natively",
    "jit": "compile at first start",
    "partly": "are served in part",
    "no": "cannot",
}


def print_verified(verified: VerifyReport) -> None:
    """What is in it, whom it serves, whether that is what was promised, and what it saves over another."""
    _print_report(verified.report)
    if verified.comparison:
        _print_comparison(verified.comparison)


def _print_report(report: Report) -> None:
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
    print_checks(_demangled(report.checks))
    write(*_verdict(report))


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
            ("outside dispatch", f"any {report.machine} CPU" if cpu.any_cpu else needs),
            ("dispatched for", ", ".join(cpu.dispatched)),
            *((f"in {row.title}", _found(row)) for row in cpu.kinds),
            ("not all", "functions overlap, and not all were looked at" if not cpu.complete else ""),
            ("not decoded", counted(cpu.undecoded, "function") if cpu.undecoded else ""),
            ("stripped", ", ".join(cpu.stripped)),
        ]
    elsewhere = [need.name for need in report.needs if need.found == "elsewhere"]
    return [*rows, ("from other packages", ", ".join(elsewhere))]


def _found(row: KindRow) -> str:
    uses = ", ".join(f"{feature} in {count}" for feature, count in row.functions_by_feature.items())
    return counted(row.functions, "function") + (f": {uses}" if uses else "")


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
    figures = ("pieces", "size", f"of {report.containers} containers")
    rows = []
    for row in report.gpu:
        cells = (f"{row.kind} {row.target}", str(row.entries), megabytes(row.size), str(row.containers))
        style = "dim" if row.stray else ""
        rows.append([(text, style) for text in (*cells, "stray" if row.stray else "")])
    table(("GPU code", *figures, ""), rows, right=figures)


def _demangled(checks: Sequence[Check]) -> list[Check]:
    """The checks with C++ names as people write them, where c++filt is at hand."""
    program = find("c++filt")
    if program is None or not any("_Z" in check.text for check in checks):
        return list(checks)
    return [
        replace(check, text=run([program], stdin=check.text, timeout=10).stdout or check.text)
        if "_Z" in check.text
        else check
        for check in checks
    ]


def print_checks(checks: Sequence[Check], indent: str = "") -> None:
    """A line each, and what to do below it."""
    for check in checks:
        mark, style = MARKS[check.status]
        write(f"{indent}{paint(mark, style)} {paint(f'{check.id}:', 'bold')} {check.text}")
        if check.hint:
            write(f"{indent}    {check.hint}", "cyan")


def _verdict(report: Report) -> tuple[str, str]:
    if not report.ok:
        return f"not right: {report.variant or report.path}", "bold red"
    if report.variant and not report.verified:
        left = ", ".join(check.id for check in report.checks if check.status == "unjudged")
        return f"not verified: no fault found, but not everything could be judged ({left})", "yellow"
    if report.variant:
        return f"it is what {report.variant} promises", "bold green"
    return "no fault found; --variant NAME checks it against a variant", "green"


def _print_comparison(comparison: Comparison) -> None:
    """What one artifact saves over another."""
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
