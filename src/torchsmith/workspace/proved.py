"""What evaluations proved of a workspace's own claims: a line that only it says can be built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from torchsmith.catalog import Catalog, LineBuild
from torchsmith.edge.files import write_atomic
from torchsmith.matrix import Cell, Reason
from torchsmith.matrix.cells import claim

KEPT = ".torchsmith/evaluated"


def proved(root: Path | None) -> frozenset[str]:
    """The cells that evaluated, each with its line and nixpkgs."""
    try:
        return frozenset((root / KEPT).read_text().splitlines()) if root else frozenset()
    except (OSError, UnicodeDecodeError):
        return frozenset()


def remember(root: Path, cells: Iterable[Cell], catalog: Catalog, evaluated: Collection[str]) -> int:
    """Keep which claimed cells evaluated; how many of them are new."""
    before = proved(root)
    new = {
        f"{cell.name} {cell.line} {build.pin}"
        for cell in cells
        if cell.name in evaluated and (build := _build(cell, catalog)) and _claimed(cell, catalog)
    } - before
    if new:
        write_atomic(root / KEPT, "".join(f"{one}\n" for one in sorted(before | new)))
    return len(new)


def settled(cells: Sequence[Cell], catalog: Catalog, known: frozenset[str]) -> tuple[Cell, ...]:
    """Cells without the warnings that an evaluation answered."""
    return tuple(_settled(cell, catalog, known) for cell in cells)


def _settled(cell: Cell, catalog: Catalog, known: frozenset[str]) -> Cell:
    build, words = _build(cell, catalog), _claimed(cell, catalog)
    if build is None or not words or f"{cell.name} {cell.line} {build.pin}" not in known:
        return cell
    answered = Reason("unproved", words)
    return Cell(cell.variant, cell.line, tuple(one for one in cell.warnings if one != answered))


def _build(cell: Cell, catalog: Catalog) -> LineBuild | None:
    return catalog.lines[cell.line].build_for(cell.variant.cuda)


def _claimed(cell: Cell, catalog: Catalog) -> str:
    """What is not proved of a cell, where only this workspace says that it can be built; else nothing."""
    build = _build(cell, catalog)
    words = claim(cell.variant, catalog, catalog.lines[cell.line], build) if build else ""
    return words if build and (build.claimed or not build.unproved) else ""
