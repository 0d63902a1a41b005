"""The variants of a matrix, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, PythonVersion, Sm
from torchsmith.cli.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.matrix import Cell, pname
from torchsmith.matrix.cells import UNUSABLE, gpu_title, toolkit_title
from torchsmith.matrix.select import Selector
from torchsmith.workspace.load import open_workspace


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """Which variants of which matrix."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None


class CellRow(msgspec.Struct, frozen=True, kw_only=True):
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
    target: str  # the backend with its release and architecture, as names write it
    cell: str  # its name without the package
    toolkit: str  # such as CUDA 13.0; empty for the CPU alone
    arch: str  # of the GPU, such as sm120
    gpu: str  # the products that run it


class ListReport(msgspec.Struct, frozen=True):
    """The cells that were asked for; packages and instruction sets of them in the catalog's order."""

    cells: list[CellRow]
    packages: Sequence[str] = ()
    isas: Sequence[str] = ()
    unusable: int = 0  # cells that no machine can use
    next: Sequence[str] = ()  # the verb to call, where nothing was written yet


class LeftOutRow(msgspec.Struct, frozen=True):
    """A cell that the matrix leaves out, and why."""

    name: str
    reasons: list[str]


class LeftOutReport(msgspec.Struct, frozen=True):
    """The cells that were left out."""

    left_out: list[LeftOutRow]


def list_cells(request: ListRequest) -> ListReport:
    """The cells that selectors pick; perhaps none. Raises a Problem for a selector that nobody knows."""
    opened = open_workspace(request.workspace, request.profile)
    matrix = opened.select(request.selectors)
    catalog, cells = opened.catalog, matrix.cells
    used = {cell.variant.isa for cell in cells}
    step: tuple[str, ...] = ()
    if cells and opened.root is None:
        step = ("init", "builds", *(("-p", request.profile) if request.profile else ()))
    elif cells and opened.root and not any(opened.root.glob("build-*")):
        step = ("apply",)
    return ListReport(
        cells=[_row(cell, catalog) for cell in cells],
        packages=[package.name for package in matrix.packages(catalog)],
        isas=[isa for isa in catalog.isas if isa in used],
        unusable=sum(any(warning.code == UNUSABLE for warning in cell.warnings) for cell in cells),
        next=step,
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


def list_left_out(request: ListRequest) -> LeftOutReport:
    """What the matrix leaves out of what selectors pick, each cell with its reasons."""
    opened = open_workspace(request.workspace, request.profile)
    selector = Selector.parse(request.selectors, opened.catalog)
    rows = [row for row in opened.matrix.left_out if selector.matches(row.variant, "", opened.catalog)]
    if not rows:
        opened.select(request.selectors)  # a Problem where the matrix has none of it either
    return LeftOutReport([LeftOutRow(row.variant.name, [str(why) for why in row.reasons]) for row in rows])
