"""`torchsmith align`: which cells several repositories have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

import msgspec

from torchsmith.api.fields import Argument, Option
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import Painted, columns, exit_if, next_step, print_json, tell, warn, width, write
from torchsmith.core.words import printable
from torchsmith.edit.align import Alignment, Unaligned, align, make_missing, write_missing
from torchsmith.workspace.checkout import workspace_folder

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith align builds"


class AlignmentDocument(msgspec.Struct, frozen=True):
    """For each cell its name as `cell`, and for each repository whether it has it; recipes that it `cannot`
    have are not missing, and say why."""

    cells: list[dict[str, str | bool]]
    whole: int
    missing: int
    left: list[Unaligned]
    cannot: dict[str, str] = {}


class CreatedDocument(msgspec.Struct, frozen=True):
    """With --create: the files written, and why others cannot be."""

    written: Sequence[Path]
    impossible: dict[str, str]


def run(
    paths: Annotated[
        list[Path] | None, Argument("Repositories, or a folder that holds them.", metavar="[REPO]...")
    ] = None,
    workspace: WorkspaceOption = None,
    create: Annotated[bool, Option("Write the recipes that are missing.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the cells of several repositories side by side, and mark what is missing on which side.

    The exit code is 1 when something is missing; what a package cannot have is not, and the reason is
    said. With [bold]--create[/bold] what is missing is written, of the release that its siblings are of.
    """
    alignment = align(tuple(paths or (workspace_folder(workspace),)), workspace)
    if create:
        made = make_missing(alignment)
        done = CreatedDocument(write_missing(made), {one.path: one.why for one in made if one.left})
        print_json(done) if json else _print_created(done)
        wrong = bool(done.impossible)
    else:
        print_json(_document(alignment)) if json else _print_alignment(alignment)
        wrong = bool(alignment.missing)
        if wrong:
            next_step("align", *map(str, paths or ()), "--create", workspace=workspace)
    exit_if(wrong)


def _document(alignment: Alignment) -> AlignmentDocument:
    rows: list[dict[str, str | bool]] = [
        {"cell": cell, **{column.shown: cell in column.recipes for column in alignment.columns}}
        for cell in alignment.cells
    ]
    cannot = {gap.variant.name: "; ".join(map(str, gap.cannot)) for gap in alignment.gaps if gap.cannot}
    return AlignmentDocument(rows, alignment.whole, len(alignment.missing), alignment.left, cannot)


def _print_alignment(alignment: Alignment) -> None:
    """One row a cell, one column a repository: by its name, or by a letter where that is too wide."""
    names = _headings(alignment)
    gaps = {(gap.column.shown, gap.cell): gap.cannot for gap in alignment.gaps}
    rows: list[list[Painted]] = [[(word, "bold") for word in ("cell", *names.values(), "status")]]
    for cell in alignment.cells:
        of = [(column, gaps.get((column.shown, cell))) for column in alignment.columns]
        lacking = [names[column.shown] for column, why in of if why is not None and not why]
        cannot = [column.package.title for column, why in of if why]
        said = [f"missing in {', '.join(lacking)}"] if lacking else []
        said += [f"not of {', '.join(cannot)}"] if cannot else []
        rows.append([cell, *(_standing(why) for _, why in of), "; ".join(said) or "in all"])
    columns(rows)
    repositories = f"{len(alignment.columns)} repositories"
    hint = "; --create writes what is missing" if alignment.missing else ""
    tell(f"{alignment.whole} of {len(alignment.cells)} cells are in all {repositories}{hint}")
    for reason, count in Counter(why[0] for why in gaps.values() if why).items():
        tell(f"cannot be, {count}: {reason}")
    for one in alignment.left:
        warn(printable(f"in no row: {one.path}: {one.why}"))


def _headings(alignment: Alignment) -> dict[str, str]:
    shown = [column.shown for column in alignment.columns]
    room, cells = width(), max(len(cell) for cell in alignment.cells)
    if room is None or cells + sum(max(len(name), 7) + 2 for name in shown) + len("  in all") <= room:
        return {name: name for name in shown}
    letters = dict(zip(shown, ascii_uppercase, strict=False))
    for name, letter in letters.items():
        write(printable(f"{letter}  {name}"))
    return {name: letters.get(name, name) for name in shown}


def _standing(why: Sequence[object] | None) -> Painted:
    return "yes" if why is None else "cannot" if why else ("missing", "bold red")


def _print_created(done: CreatedDocument) -> None:
    """What was written, and what cannot be."""
    for path in done.written:
        write(printable(f"create  {path}"))
    for name, why in done.impossible.items():
        warn(f"cannot  {Path(name).name}  {why}")
    if done.written:
        tell("Where a torchsmith.toml rules these repositories, ask for the new cells there too (`include`).")
    elif not done.impossible:
        tell("nothing is missing")
