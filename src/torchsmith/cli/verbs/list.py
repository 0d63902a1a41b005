"""`torchsmith list`: the matrix, as a grid, names or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.listing import LeftOutReport, LeftOutRow, ListRequest, cells_document, left_out_of
from torchsmith.api.options import JsonOption
from torchsmith.catalog import Catalog, Package
from torchsmith.cli.console import Painted, columns, next_step, print_json, warn, write
from torchsmith.core.problem import Conflict
from torchsmith.core.words import counted, grouped
from torchsmith.matrix import Cell, LeftOut, Matrix
from torchsmith.matrix.cells import UNUSABLE, gpu_of, toolkit_title

EXAMPLE = "torchsmith list sm120 'avx512*'"


def run(
    *,
    request: ListRequest,
    names: Annotated[bool, Option("Print one name per line.")] = False,
    left_out: Annotated[bool, Option("List the cells that are left out, with reasons.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the variants of the matrix, as a grid of GPUs and instruction sets.

    Selectors on the same axis are alternatives; selectors on different axes must all match: [bold]sm90 sm120
    avx2[/bold] is both GPUs with AVX2. [bold]![/bold] excludes.
    """
    if names and (json or left_out):
        raise Conflict("--names prints names alone", hint="leave --json and --left-out out")
    opened, matrix = request.opened()
    if left_out:
        _print_left_out(left_out_of(opened, matrix), as_json=json)
    elif names:
        sys.stdout.write("".join(f"{cell.name}\n" for cell in matrix.cells))
    elif json:
        print_json(cells_document(matrix, opened.catalog))
    else:
        _print_grid(matrix, opened.catalog)
        if matrix.cells and opened.root is None:
            profile = ("-p", request.profile) if request.profile else ()
            next_step("init", "builds", *profile, why="a workspace of your own, to change")
        elif matrix.cells and opened.root and not any(opened.root.glob("build-*")):
            next_step("generate", workspace=request.workspace)
    if not matrix.cells and not left_out:
        warn("every cell is left out; torchsmith list --left-out says why")
        raise SystemExit(1)


def _print_left_out(rows: Sequence[LeftOut], *, as_json: bool) -> None:
    """The cells left out with their reasons."""
    if as_json:
        left = [LeftOutRow(row.variant.name, [str(why) for why in row.reasons]) for row in rows]
        print_json(LeftOutReport(left))
        return
    found = grouped(("; ".join(map(str, row.reasons)), row.variant.name) for row in rows)
    for why, names in found.items():
        write(f"{counted(len(names), 'cell')}: {why}", "bold")
        for name in names:
            write(f"  {name}")
    if not rows:
        write("nothing is left out")


def _print_grid(matrix: Matrix, catalog: Catalog) -> None:
    """One grid for each line, Python and CUDA; packages with the same cells share a grid."""
    marks: set[str] = set()
    grids = grouped(((cell.line, cell.variant.python, cell.variant.toolkit), cell) for cell in matrix.cells)
    for (line_name, python, _), cells in grids.items():
        packages = Matrix(tuple(cells)).packages(catalog)
        line = catalog.lines[line_name]
        versions = ", ".join(f"{package} {line.version_of(package.name)}".strip() for package in packages)
        target = toolkit_title(cells[0].variant, catalog) or "CPU only"
        write(f"{versions}; Python {python}; {target}", "bold")
        rows = _grid(cells, packages, catalog)
        columns(rows)
        marks |= {cell[0].strip() for row in rows[1:] for cell in row[1:-1]}
        write()
    _print_legend(marks)
    _print_summary(matrix, catalog)


def _grid(cells: Sequence[Cell], packages: Sequence[Package], catalog: Catalog) -> list[list[Painted]]:
    isas = [isa for isa in catalog.isas if any(cell.variant.isa == isa for cell in cells)]
    rows: list[list[Painted]] = [[(word, "cyan") for word in ("GPU", *isas, "parts")]]
    by_arch = grouped((cell.variant.arch, cell) for cell in sorted(cells, key=lambda c: c.variant.sort_key))
    for arch, here in by_arch.items():
        gpu = gpu_of(here[0].variant, catalog)
        marks = [_mark([c for c in here if c.variant.isa == isa], packages) for isa in isas]
        shown = [(text.center(len(isa)), look) for (text, look), isa in zip(marks, isas, strict=True)]
        rows.append([arch or "none", *shown, (gpu.title if gpu else "", "dim")])
    return rows


def _mark(cells: Sequence[Cell], packages: Sequence[Package]) -> tuple[str, str]:
    """● in every package, its count where only some have it; ▲ with a warning."""
    if not cells:
        return "·", "dim"
    mark = "●" if len(cells) == len(packages) else f"{len(cells)}/{len(packages)}"
    if any(cell.warnings for cell in cells):
        return "▲" if mark == "●" else f"▲{mark}", "yellow"
    return mark, "green"


LEGEND = {
    "●": "● in every package",
    "▲": "▲ warning, see below",
    "·": "· not in the matrix",
}


def _print_legend(marks: set[str]) -> None:
    shown = [words for mark, words in LEGEND.items() if any(mark in one for one in marks)]
    if any("/" in mark for mark in marks):
        shown.append("1/3 in one of three packages")
    if shown:
        write("  ".join(shown), "dim")


def _print_summary(matrix: Matrix, catalog: Catalog) -> None:
    packages = matrix.packages(catalog)
    held = [{c.variant.cell for c in matrix.cells if c.variant.package == package} for package in packages]
    names = ", ".join(map(str, packages))
    if len(packages) > 1 and all(one == held[0] for one in held):
        parts = f"{counted(len(held[0]), 'cell')} in all {len(packages)} packages ({names})"
    else:
        parts = ", ".join(f"{len(one)} {package}" for one, package in zip(held, packages, strict=True))
    write(f"{counted(len(matrix.cells), 'variant')}: {parts}")
    warned = Counter(warning for cell in matrix.cells for warning in cell.warnings)
    for warning, count in warned.items():
        write(f"▲ {counted(count, 'variant')}: {warning}", "yellow")
    if any(warning.code == UNUSABLE for warning in warned):
        write("  torchsmith.toml asks for cells that no machine can use; `usable = true` leaves them out")
