"""A chosen set of variants as the matrix of a torchsmith.toml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Cell


def matrix_text(cells: Sequence[Cell], about: str) -> str:
    """The file's text. Cells of one line name it; else each takes the newest line that has its CUDA."""
    lines = {cell.line for cell in cells}
    comment = "\n".join(f"# {line}" for line in about.splitlines())
    head = [comment, "format = 1", *([f'line = "{lines.pop()}"'] if len(lines) == 1 else [])]
    names = [f'  "{cell.name}",' for cell in sorted(cells, key=lambda cell: cell.variant.sort_key)]
    return "\n".join([*head, "include = [", *names, "]"]) + "\n"


def write_matrix(path: Path, cells: Sequence[Cell], about: str, *, replace: bool = False) -> None:
    """Write the file; one that is there stays unless it may be replaced."""
    if path.exists() and not replace:
        raise Problem(f"{path} is there already", hint="--force replaces it")
    if not cells:
        raise Problem("there is no variant to write: nothing is missing, or nothing was chosen")
    write_atomic(path, matrix_text(cells, about))
