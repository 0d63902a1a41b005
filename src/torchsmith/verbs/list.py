"""`torchsmith list`: the matrix, as a grid, names or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from torchsmith.api.listing import CellRow, LeftOutReport, ListReport, ListRequest, list_cells, list_left_out
from torchsmith.cli.console import Painted, answer, columns, next_step, warn, write
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption
from torchsmith.core.problem import Conflict
from torchsmith.core.text import counted, grouped

EXAMPLE = "torchsmith list sm120 'avx512*'"


def run(
    *,
    request: ListRequest,
    names: Annotated[bool, Option("Print one name per line.")] = False,
    left_out: Annotated[bool, Option("List the variants that are left out, with reasons.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the variants of the matrix, as a grid of GPUs and instruction sets.

    Selectors on the same axis are alternatives; selectors on different axes must all match: [bold]sm90 sm120
    avx2[/bold] is both GPUs with AVX2. [bold]![/bold] excludes.
    """
    if names and (json or left_out):
        raise Conflict("--names prints names alone", hint="leave --json and --left-out out")
    if left_out:
        answer(list_left_out(request), _print_left_out, as_json=json)
        return
    report = list_cells(request)
    if names:
        sys.stdout.write("".join(f"{row.name}\n" for row in report.cells))
    else:
        answer(report, _print_grids, as_json=json)
        if report.next:
            workspace = None if report.next[0] == "init" else request.workspace
            why = "a workspace of your own, to change" if report.next[0] == "init" else ""
            next_step(*report.next, workspace=workspace, why=why)
    if not report.cells:
        warn("every cell is left out; torchsmith list --left-out says why")
        raise SystemExit(1)


def _print_left_out(report: LeftOutReport) -> None:
    """The cells left out with their reasons."""
    for why, names in grouped(("; ".join(row.reasons), row.name) for row in report.left_out).items():
        write(f"{counted(len(names), 'variant')}: {why}", "bold")
        for name in names:
            write(f"  {name}")
    if not report.left_out:
        write("nothing is left out")


def _print_grids(report: ListReport) -> None:
    """One grid for each line, Python and CUDA; packages with the same cells share a grid."""
    marks: set[str] = set()
    grids = grouped(((row.line, row.python, row.toolkit), row) for row in report.cells)
    for (_, python, toolkit), cells in grids.items():
        versions = {row.package: row.version for row in cells}
        packages = [package for package in report.packages if package in versions]
        titles = ", ".join(f"{package} {versions[package]}".strip() for package in packages)
        write(f"{titles}; Python {python}; {toolkit or 'CPU only'}", "bold")
        rows = _grid(cells, len(packages), report.isas)
        columns(rows)
        marks |= {cell[0].strip() for row in rows[1:] for cell in row[1:-1]}
        write()
    _print_legend(marks)
    _print_summary(report)


def _grid(cells: Sequence[CellRow], packages: int, known: Sequence[str]) -> list[list[Painted]]:
    used = {row.isa for row in cells}
    isas = [isa for isa in known if isa in used]
    rows: list[list[Painted]] = [[(word, "cyan") for word in ("GPU", *isas, "parts")]]
    for arch, here in grouped((row.arch, row) for row in cells).items():
        marks = [_mark([row for row in here if row.isa == isa], packages) for isa in isas]
        shown = [(text.center(len(isa)), look) for (text, look), isa in zip(marks, isas, strict=True)]
        parts = dict.fromkeys(part for row in here for part in row.gpu.split(", "))
        rows.append([arch or "none", *shown, (", ".join(parts), "dim")])
    return rows


def _mark(cells: Sequence[CellRow], packages: int) -> tuple[str, str]:
    """● in every package, its count where only some have it; ▲ with a warning."""
    if not cells:
        return "·", "dim"
    mark = "●" if len(cells) == packages else f"{len(cells)}/{packages}"
    if any(row.warnings for row in cells):
        return "▲" if mark == "●" else f"▲{mark}", "yellow"
    return mark, "green"


LEGEND = {
    "●": "● in every package",
    "▲": "▲ warning, see below",
    "·": "· not in the matrix",
}


def _print_legend(marks: set[str]) -> None:
    shown = [text for mark, text in LEGEND.items() if any(mark in cell for cell in marks)]
    if any("/" in mark for mark in marks):
        shown.append("1/3 in one of three packages")
    if shown:
        write("  ".join(shown), "dim")


def _print_summary(report: ListReport) -> None:
    packages = report.packages
    cells = {package: {row.cell for row in report.cells if row.package == package} for package in packages}
    first = next(iter(cells.values()), set())
    if len(packages) > 1 and all(own == first for own in cells.values()):
        parts = f"{counted(len(first), 'cell')} in all {len(packages)} packages ({', '.join(packages)})"
    else:
        parts = ", ".join(f"{len(own)} {package}" for package, own in cells.items())
    write(f"{counted(len(report.cells), 'variant')}: {parts}")
    for warning, count in Counter(warning for row in report.cells for warning in row.warnings).items():
        write(f"▲ {counted(count, 'variant')}: {warning}", "yellow")
    if report.unusable:
        write("  `usable = true` in torchsmith.toml leaves out what no machine can use")
