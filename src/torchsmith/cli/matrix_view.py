"""A matrix for people: grids of GPUs and instruction sets, and cells as plain data."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from torchsmith.catalog import Catalog, CudaVersion, Package, PythonVersion, Sm
from torchsmith.cli.console import out, print_json
from torchsmith.matrix import Cell, LeftOut, Matrix, pname
from torchsmith.workspace.load import Workspace

GridKey = tuple[str, PythonVersion, CudaVersion | None]


class CellRow(msgspec.Struct, frozen=True):
    """A cell of the matrix."""

    name: str
    package: str
    version: str
    pname: str
    python: PythonVersion
    cuda: CudaVersion | None
    sm: Sm | None
    isa: str
    system: str
    line: str
    warnings: list[str]


class CellDocument(msgspec.Struct, frozen=True):
    """The cells that were asked for."""

    cells: list[CellRow]


class LeftOutRow(msgspec.Struct, frozen=True):
    """A cell that the matrix leaves out, and why."""

    name: str
    reasons: list[str]


class LeftOutDocument(msgspec.Struct, frozen=True):
    """The cells that were left out."""

    left_out: list[LeftOutRow]


def print_cells(matrix: Matrix, catalog: Catalog) -> None:
    """The cells as data."""
    print_json(CellDocument([_row(cell, catalog) for cell in matrix.cells]))


def _row(cell: Cell, catalog: Catalog) -> CellRow:
    variant, line = cell.variant, catalog.lines[cell.line]
    return CellRow(
        cell.name,
        variant.package.name,
        line.version_of(variant.package.name),
        pname(variant, line),
        variant.python,
        variant.cuda,
        variant.sm,
        variant.isa,
        catalog.isas[variant.isa].platform,
        cell.line,
        [str(warning) for warning in cell.warnings],
    )


def left_out_rows(workspace: Workspace, chosen: Matrix) -> Sequence[LeftOut]:
    """What the workspace's blocks hold but the matrix does not."""
    packages = {cell.variant.package for cell in chosen.cells}
    return [left for left in workspace.matrix.left_out if left.variant.package in packages]


def print_left_out(rows: Sequence[LeftOut], *, as_json: bool) -> None:
    """The cells left out with their reasons."""
    if as_json:
        left = [LeftOutRow(row.variant.name, [str(why) for why in row.reasons]) for row in rows]
        print_json(LeftOutDocument(left))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("left out", no_wrap=True)
    table.add_column("why")
    for row in rows:
        table.add_row(row.variant.name, "; ".join(str(why) for why in row.reasons))
    out().print(table if rows else "nothing is left out")


def print_grid(matrix: Matrix, workspace: Workspace) -> None:
    """One grid for each line, Python and CUDA; packages with the same cells share a grid."""
    console, catalog = out(), workspace.catalog
    for (line_name, python, cuda), cells in _grids(matrix).items():
        packages = Matrix(tuple(cells)).packages(catalog)
        line = catalog.lines[line_name]
        versions = ", ".join(f"{one} {line.version_of(one.name)}".strip() for one in packages)
        target = f"CUDA {cuda}" if cuda else "CPU only"
        console.print(Text(f"{versions}; Python {python}; {target}", style="bold"))
        console.print(_grid(cells, packages, catalog))
        console.print()
    _print_summary(matrix, catalog)


def _grids(matrix: Matrix) -> dict[GridKey, list[Cell]]:
    grids: dict[GridKey, list[Cell]] = {}
    for cell in matrix.cells:
        key = (cell.line, cell.variant.python, cell.variant.cuda)
        grids.setdefault(key, []).append(cell)
    return grids


def _grid(cells: Sequence[Cell], packages: Sequence[Package], catalog: Catalog) -> Table:
    isas = [isa for isa in catalog.isas if any(cell.variant.isa == isa for cell in cells)]
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("GPU", no_wrap=True)
    for isa in isas:
        table.add_column(isa, justify="center", no_wrap=True)
    table.add_column("parts", style="dim")
    sms = sorted({cell.variant.sm for cell in cells}, key=lambda sm: sm.number if sm else 0)
    for sm in sms:
        row = [
            _mark([c for c in cells if c.variant.sm == sm and c.variant.isa == isa], packages) for isa in isas
        ]
        table.add_row(_row_name(sm), *row, catalog.gpus[sm].title if sm else "")
    return table


def _row_name(sm: Sm | None) -> str:
    return str(sm) if sm else "none"


def _mark(cells: Sequence[Cell], packages: Sequence[Package]) -> Text:
    """● in every package, its count where only some have it; yellow with a warning."""
    if not cells:
        return Text("·", style="dim")
    mark = "●" if len(cells) == len(packages) else f"{len(cells)}/{len(packages)}"
    if any(cell.warnings for cell in cells):
        return Text("▲" if mark == "●" else f"▲{mark}", style="yellow")
    return Text(mark, style="green")


def _print_summary(matrix: Matrix, catalog: Catalog) -> None:
    console = out()
    counts = [
        f"{sum(cell.variant.package == package for cell in matrix.cells)} {package}"
        for package in matrix.packages(catalog)
    ]
    console.print(f"{len(matrix.cells)} variants: {', '.join(counts)}")
    warned: dict[str, int] = {}
    for cell in matrix.cells:
        for warning in cell.warnings:
            warned[str(warning)] = warned.get(str(warning), 0) + 1
    for text, count in warned.items():
        console.print(Text(f"▲ {count} cells: {text}", style="yellow"))
