"""`torchsmith list`: the matrix, as a grid, names or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, PythonVersion, Sm
from torchsmith.cli.console import Painted, answer, columns, next_step, warn, write
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Conflict
from torchsmith.core.text import counted, grouped
from torchsmith.matrix import Cell, pname
from torchsmith.matrix.cells import gpu_title, toolkit_title
from torchsmith.matrix.select import Selector, is_product, joined
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith list sm120 'avx512*'"


@dataclass(frozen=True, kw_only=True)
class ListRequest(Request):
    """Which builds of which matrix."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None

    def opened(self) -> Workspace:
        """Return the workspace whose cells are listed; without one, all that can be built, as for pick."""
        return open_workspace(self.workspace, self.profile, default_profile="every")


class CellRow(msgspec.Struct, frozen=True, kw_only=True):
    """A build of the matrix."""

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
    target: str  # the backend with its release and architecture, as names write it
    cell: str  # its name without the package
    toolkit: str  # such as CUDA 13.0; empty for the CPU alone
    arch: str  # of the GPU, such as sm120
    gpu: str  # the products that run it


class ListReport(msgspec.Struct, frozen=True):
    """The selected builds, and their packages and instruction sets in the catalog's order."""

    FORMAT: ClassVar = 2
    cells: list[CellRow]
    packages: Sequence[str] = ()
    isas: Sequence[str] = ()
    unusable: int = 0  # builds that no machine can use


class LeftOutRow(msgspec.Struct, frozen=True):
    """A build that the matrix leaves out, and why."""

    name: str
    reasons: list[str]


class LeftOutReport(msgspec.Struct, frozen=True):
    """The builds that were left out."""

    left_out: list[LeftOutRow]


def list_cells(request: ListRequest = ListRequest()) -> ListReport:
    """The builds that selectors match. Raises a Problem for an unknown selector."""
    opened = request.opened()
    matrix = opened.select(request.selectors)
    catalog, cells = opened.catalog, matrix.cells
    used = {cell.variant.isa for cell in cells}
    return ListReport(
        cells=[_row(cell, catalog) for cell in cells],
        packages=[package.name for package in matrix.packages(catalog)],
        isas=[isa for isa in catalog.isas if isa in used],
        unusable=matrix.unusable,
    )


def _row(cell: Cell, catalog: Catalog) -> CellRow:
    variant, line = cell.variant, catalog.lines[cell.line]
    return CellRow(
        name=cell.name,
        package=variant.package.name,
        version=line.version_of(variant.package.name),
        pname=pname(variant, line),
        python=variant.python,
        cuda=variant.cuda,
        sm=variant.sm,
        isa=variant.isa,
        system=catalog.isas[variant.isa].platform,
        line=cell.line,
        warnings=[str(warning) for warning in cell.warnings],
        target=str(variant.target),
        cell=variant.cell,
        toolkit=toolkit_title(variant, catalog),
        arch=variant.arch,
        gpu=gpu_title(variant, catalog),
    )


def list_left_out(request: ListRequest = ListRequest()) -> LeftOutReport:
    """The builds that selectors match and the matrix leaves out, each with the reasons."""
    opened = request.opened()
    selector = Selector.parse(request.selectors, opened.catalog)
    rows = [row for row in opened.matrix.left_out if selector.matches(row.variant, "", opened.catalog)]
    if not rows:
        opened.select(request.selectors)  # raises a Problem if the matrix has none of it either
    return LeftOutReport([LeftOutRow(row.variant.name, [str(why) for why in row.reasons]) for row in rows])


def run(
    *,
    request: ListRequest,
    names: Annotated[bool, Option("Print one name per line.")] = False,
    left_out: Annotated[bool, Option("List the builds that are left out, with reasons.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the builds of the matrix, as a grid of GPUs and instruction sets.

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
        _print_next(request, report)
    if not report.cells:
        warn("every build is left out; torchsmith list --left-out says why")
        raise SystemExit(1)


def _print_next(request: ListRequest, report: ListReport) -> None:
    """Name the verb that comes next if nothing was written yet."""
    opened = request.opened()
    if report.cells and opened.root is None:
        named = joined(request.selectors, lambda words: is_product(words, opened.catalog))
        products = [word for word in named if is_product(word, opened.catalog)]
        matrix = ("-p", request.profile) if request.profile else ("--for", products[0]) if products else ()
        next_step("init", "builds", *matrix, why="a workspace of your own, to change")
        return
    folders = [opened.home / package.folder for package in opened.catalog.packages.values()]
    if report.cells and not any(folder.exists() for folder in folders):
        next_step("apply", workspace=request.workspace)


def _print_left_out(report: LeftOutReport) -> None:
    """The builds that are left out, and the reasons."""
    for why, names in grouped(("; ".join(row.reasons), row.name) for row in report.left_out).items():
        write(f"{counted(len(names), 'build')}: {why}", "bold")
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
    """● in every package, a count if only some have it; ▲ with a warning."""
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
        parts = f"{len(first)} in each of {len(packages)} packages ({', '.join(packages)})"
    else:
        parts = ", ".join(f"{len(own)} {package}" for package, own in cells.items())
    write(f"{counted(len(report.cells), 'build')}: {parts}")
    for warning, count in Counter(warning for row in report.cells for warning in row.warnings).items():
        write(f"▲ {counted(count, 'build')}: {warning}", "yellow")
    if report.unusable:
        write("  `usable = true` in torchsmith.toml leaves out what no machine can use")
