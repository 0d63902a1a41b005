"""`torchsmith align`: which cells several repositories have in common."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from string import ascii_uppercase

from torchsmith.api.aligning import AlignReport, AlignRequest, align
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import Painted, columns, exit_if, next_step, print_json, tell, warn, width, write
from torchsmith.core.words import printable

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith align builds"


def run(*, request: AlignRequest, json: JsonOption = False) -> None:
    """Compare the cells of several repositories and mark what is missing in which.

    The exit code is 1 when something is missing. Cells that a package cannot have do not count; the reason is
    given. [bold]--create[/bold] writes the missing recipes, in the release of their siblings, and adds them
    to torchsmith.toml where there is one.
    """
    report = align(request)
    if json:
        print_json(report)
    elif request.create:
        _print_created(report)
    else:
        _print_alignment(report)
        if report.missing:
            next_step("align", *map(str, request.paths), "--create", workspace=request.workspace)
    exit_if(report.not_written if request.create else report.missing)


def _print_alignment(report: AlignReport) -> None:
    """One row a cell, one column a repository: by its name, or by a letter where that is too wide."""
    names = _headings(report)
    rows: list[list[Painted]] = [[(title, "bold") for title in ("cell", *names.values(), "status")]]
    for row in report.cells:
        marks: list[Painted] = [
            ("missing", "bold red") if repo in row.missing else "cannot" if repo in row.cannot else "yes"
            for repo in names
        ]
        status = [f"missing in {', '.join(names[repo] for repo in row.missing)}"] if row.missing else []
        status += [f"cannot be in {', '.join(names[repo] for repo in row.cannot)}"] if row.cannot else []
        rows.append([row.cell, *marks, "; ".join(status) or "in all"])
    columns(rows)
    hint = "; --create writes what is missing" if report.missing else ""
    tell(f"{report.whole} of {len(report.cells)} cells are in all {len(names)} repositories{hint}")
    for reason, count in Counter(why for row in report.cells for why in row.cannot.values()).items():
        tell(f"cannot be, {count}: {reason}")
    for recipe in report.left:
        warn(printable(f"in no row: {recipe.path}: {recipe.why}"))


def _headings(report: AlignReport) -> dict[str, str]:
    shown = report.repositories
    room, cells = width(), max(len(row.cell) for row in report.cells)
    if room is None or cells + sum(max(len(name), 7) + 2 for name in shown) + len("  in all") <= room:
        return {name: name for name in shown}
    letters = dict(zip(shown, ascii_uppercase, strict=False))
    for name, letter in letters.items():
        write(printable(f"{letter}  {name}"))
    return {name: letters.get(name, name) for name in shown}


def _print_created(report: AlignReport) -> None:
    """What was written, and what cannot be."""
    for path in report.written:
        write(printable(f"create  {path}"))
    for name, why in report.not_written.items():
        warn(f"cannot  {Path(name).name}  {why}")
    if report.written and report.managed:
        tell("torchsmith.toml asks for these cells now.")
    elif report.written:
        tell("No torchsmith.toml rules these repositories: torchsmith does not manage the new files.")
    elif not report.not_written:
        tell("nothing is missing")
