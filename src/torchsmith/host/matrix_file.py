"""A chosen set of variants as the matrix of a torchsmith.toml, which torchsmith must be able to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torchsmith.core.files import check_writable, write_atomic
from torchsmith.core.problem import Empty, Exists, Invalid, Problem
from torchsmith.matrix import Cell, Matrix
from torchsmith.matrix.text import matrix_text


def check_free(path: Path, *, replace: bool = False) -> None:
    """Raise a Problem if a file exists, unless `replace`, or cannot be written."""
    if path.exists() and not replace:
        raise Exists(f"{path} exists already", hint="--force replaces it")
    check_writable(path)


def write_matrix(
    path: Path,
    cells: Sequence[Cell],
    about: str,
    read: Callable[[Path, str], Matrix],
    *,
    replace: bool = False,
) -> None:
    """Write the file, but not one that would be read as anything else than these cells."""
    check_free(path, replace=replace)
    if not cells:
        raise Empty("there is no build to write: nothing was chosen")
    text = matrix_text(cells, about)
    wanted = {(cell.name, cell.line) for cell in cells}
    try:
        same = {(cell.name, cell.line) for cell in read(path, text).cells} == wanted
        why = "it would be read as other builds"
    except Problem as problem:
        same, why = False, problem.message
    if not same:
        raise Invalid(
            f"not written: torchsmith would not read {path} as these builds: {why}",
            hint="write it beside the catalog folder of the workspace, or add the builds to its include",
        )
    write_atomic(path, text)
