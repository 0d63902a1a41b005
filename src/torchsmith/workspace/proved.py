"""What evaluations proved of a workspace's own claims: a line that only it says can be built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.edge.files import write_atomic
from torchsmith.matrix import Cell, Reason

CLAIM = "only this workspace says so: torchsmith eval proves a cell"
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
        _key(cell, catalog) for cell in cells if cell.name in evaluated and any(map(_claimed, cell.warnings))
    } - before
    if new:
        write_atomic(root / KEPT, "".join(f"{one}\n" for one in sorted(before | new)))
    return len(new)


def settled(cells: Sequence[Cell], catalog: Catalog, known: frozenset[str]) -> tuple[Cell, ...]:
    """Cells without the warnings that an evaluation answered."""
    return tuple(
        Cell(cell.variant, cell.line, tuple(one for one in cell.warnings if not _claimed(one)))
        if known and _key(cell, catalog) in known
        else cell
        for cell in cells
    )


def _claimed(reason: Reason) -> bool:
    return reason.text == CLAIM


def _key(cell: Cell, catalog: Catalog) -> str:
    build = catalog.lines[cell.line].build_for(cell.variant.cuda)
    return f"{cell.name} {cell.line} {build.pin if build else ''}"
