"""The variants of a matrix, and those that it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from torchsmith.api.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.catalog import Catalog, CudaVersion, PythonVersion, Sm
from torchsmith.matrix import Cell, LeftOut, Matrix, pname
from torchsmith.workspace.load import Workspace, open_workspace


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """Which variants of which matrix."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None

    def opened(self) -> tuple[Workspace, Matrix]:
        """The workspace, and the part of its matrix that selectors pick."""
        opened = open_workspace(self.workspace, self.profile)
        return opened, opened.select(self.selectors or ())


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
    target: str  # the backend with its release and architecture, as names write it


class ListReport(msgspec.Struct, frozen=True):
    """The cells that were asked for."""

    cells: list[CellRow]


class LeftOutRow(msgspec.Struct, frozen=True):
    """A cell that the matrix leaves out, and why."""

    name: str
    reasons: list[str]


class LeftOutReport(msgspec.Struct, frozen=True):
    """The cells that were left out."""

    left_out: list[LeftOutRow]


def row_of(cell: Cell, catalog: Catalog) -> CellRow:
    variant, line = cell.variant, catalog.lines[cell.line]
    package, version = variant.package.name, line.version_of(variant.package.name)
    axes = (variant.python, variant.cuda, variant.sm, variant.isa, catalog.isas[variant.isa].platform)
    warnings = [str(warning) for warning in cell.warnings]
    return CellRow(
        cell.name, package, version, pname(variant, line), *axes, cell.line, warnings, str(variant.target)
    )


def cells_document(matrix: Matrix, catalog: Catalog) -> ListReport:
    """The cells as data."""
    return ListReport([row_of(cell, catalog) for cell in matrix.cells])


def left_out_of(opened: Workspace, matrix: Matrix) -> list[LeftOut]:
    """What a workspace's matrix leaves out of the packages that were selected."""
    packages = {cell.variant.package for cell in matrix.cells}
    return [left for left in opened.matrix.left_out if left.variant.package in packages]
