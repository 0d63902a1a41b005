"""Alignment tables, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from torchsmith.cli.console import err, out, print_json
from torchsmith.plan.align import Alignment
from torchsmith.workspace.change import Change


class OutsideRow(msgspec.Struct, frozen=True):
    """A recipe that is in no row, and why."""

    path: Path
    why: str


class AlignmentDocument(msgspec.Struct, frozen=True):
    """For each cell its name as `cell`, and for each repository whether it has it."""

    cells: list[dict[str, str | bool]]
    whole: int
    missing: int
    left: list[OutsideRow]


class CreatedDocument(msgspec.Struct, frozen=True):
    """With --create: the files written, and why others cannot be."""

    written: Sequence[Path]
    impossible: dict[str, str]


def print_alignment(alignment: Alignment, *, as_json: bool) -> None:
    """One row a cell, one column a repository."""
    if as_json:
        rows: list[dict[str, str | bool]] = [
            {"cell": cell, **{column.shown: cell in column.recipes for column in alignment.columns}}
            for cell in alignment.cells
        ]
        left = [OutsideRow(one.path, one.why) for one in alignment.left]
        print_json(AlignmentDocument(rows, alignment.whole, len(alignment.missing), left))
        return
    wide = max(len(cell) for cell in alignment.cells) + 2
    widths = [max(len(column.shown), len("missing")) + 2 for column in alignment.columns]
    console = out()
    head = "".join(f"{column.shown:{width}}" for column, width in zip(alignment.columns, widths, strict=True))
    console.print(Text(f"{'cell':{wide}}{head}status", style="bold"), soft_wrap=True)
    for cell in alignment.cells:
        line = Text(f"{cell:{wide}}")
        for column, width in zip(alignment.columns, widths, strict=True):
            there = cell in column.recipes
            line.append(f"{'yes' if there else 'missing':{width}}", style="" if there else "bold red")
        lacking = [column.shown for column in alignment.columns if cell not in column.recipes]
        console.print(
            line.append(f"missing in {', '.join(lacking)}" if lacking else "in all"), soft_wrap=True
        )
    words = (
        f"{alignment.whole} of {len(alignment.cells)} cells are in all {len(alignment.columns)} repositories"
    )
    hint = "; --create writes what is missing" if alignment.missing else ""
    err().print(words + hint, soft_wrap=True)
    for one in alignment.left:
        err().print(Text(f"in no row: {one.path}: {one.why}", style="yellow"), soft_wrap=True)


def print_created(written: Sequence[Path], impossible: Sequence[Change], *, as_json: bool) -> None:
    """What was written, and what cannot be."""
    if as_json:
        print_json(CreatedDocument(written, {one.path: one.why for one in impossible}))
        return
    for path in written:
        out().print(f"create  {path}", soft_wrap=True)
    for one in impossible:
        err().print(Text(f"cannot  {Path(one.path).name}  {one.why}", style="yellow"), soft_wrap=True)
    if written:
        err().print(
            "Where a torchsmith.toml rules these repositories, ask for the new cells there too (`include`).",
            soft_wrap=True,
        )
