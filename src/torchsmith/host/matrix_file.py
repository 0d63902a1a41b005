"""A chosen set of variants as the matrix of a torchsmith.toml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Cell
from torchsmith.matrix.text import matrix_text


def write_matrix(path: Path, cells: Sequence[Cell], about: str, *, replace: bool = False) -> None:
    """Write the file; one that is there stays unless it may be replaced."""
    if path.exists() and not replace:
        raise Problem(f"{path} is there already", hint="--force replaces it")
    if not cells:
        raise Problem("there is no variant to write: nothing is missing, or nothing was chosen")
    write_atomic(path, matrix_text(cells, about))
