"""A chosen set of cells as the text of a torchsmith.toml."""

from __future__ import annotations

from collections.abc import Sequence

from torchsmith.matrix.expand import Cell


def matrix_text(cells: Sequence[Cell], about: str) -> str:
    """The file's text. Cells of one line name it; else each takes the newest line that has its CUDA."""
    lines = {cell.line for cell in cells}
    comment = "\n".join(f"# {line}" for line in about.splitlines())
    head = [comment, "format = 1", *([f'line = "{lines.pop()}"'] if len(lines) == 1 else [])]
    names = [f'  "{cell.name}",' for cell in sorted(cells, key=lambda cell: cell.variant.sort_key)]
    return "\n".join([*head, "include = [", *names, "]"]) + "\n"
