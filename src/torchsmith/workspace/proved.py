"""What evaluations proved of a workspace's own claims: a line that only it says can be built."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import MissingRequirement
from torchsmith.core.state import make_state_folder, state_folder
from torchsmith.matrix import Cell, Reason
from torchsmith.matrix.cells import claim

FILE = "evaluated"


def proved(root: Path | None) -> frozenset[str]:
    """The cells that evaluated, each with its line and nixpkgs."""
    try:
        return frozenset((state_folder(root) / FILE).read_text().splitlines()) if root else frozenset()
    except (OSError, UnicodeDecodeError, MissingRequirement):
        return frozenset()


def remember(root: Path, cells: Iterable[Cell], catalog: Catalog, evaluated: Collection[str]) -> int:
    """Keep which claimed cells evaluated; how many of them are new."""
    before = proved(root)
    claims = (_claim(cell, catalog) for cell in cells if cell.name in evaluated)
    new = {key for key, unproved in claims if unproved} - before
    if new:
        write_atomic(make_state_folder(root) / FILE, "".join(f"{line}\n" for line in sorted(before | new)))
    return len(new)


def settled(cell: Cell, catalog: Catalog, known: frozenset[str]) -> Cell:
    """A cell without the warnings that an evaluation answered."""
    key, unproved = _claim(cell, catalog)
    if not unproved or key not in known:
        return cell
    answered = Reason("unproved", unproved)
    return Cell(cell.variant, cell.line, tuple(warning for warning in cell.warnings if warning != answered))


def _claim(cell: Cell, catalog: Catalog) -> tuple[str, str]:
    """A cell with its line and nixpkgs; and what is not proved of it, if only this workspace says that it
    can be built."""
    line = catalog.lines[cell.line]
    build = line.build_for(cell.variant.toolkit)
    if build is None or (build.unproved and not build.claimed):
        return "", ""
    return f"{cell.name} {cell.line} {build.pin}", claim(cell.variant, catalog, line, build)
