"""`torchsmith align`: which builds several repositories have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Annotated

from torchsmith.cli.console import Painted, columns, exit_if, next_step, print_json, warn, write, write_stderr
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.text import counted, grouped, printable
from torchsmith.edit.align import AlignedCell, Alignment, align_repositories
from torchsmith.workspace.checkout import workspace_folder

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith align builds"
MISSING, CANNOT = "-", "x"


@dataclass(frozen=True, kw_only=True)
class AlignRequest(Request):
    """Which repositories to compare, and whether to write what is missing."""

    paths: Annotated[
        tuple[Path, ...], Argument("Repositories, or a folder that contains them.", metavar="[REPO]...")
    ] = ()
    workspace: WorkspaceOption = None
    create: Annotated[bool, Option("Write the recipes that are missing.")] = False


def align(request: AlignRequest) -> Alignment:
    """Compare the builds of repositories; `create` writes what is missing."""
    paths = request.paths or (workspace_folder(request.workspace),)
    return align_repositories(paths, request.workspace, create=request.create)


def run(*, request: AlignRequest, json: JsonOption = False) -> None:
    """Compare the builds of several repositories and mark what is missing in which.

    The exit code is 1 when something is missing. Builds that a package cannot have do not count; the reason
    is given. [bold]--create[/bold] writes the missing recipes, in the release of their siblings, and adds
    them to torchsmith.toml if there is one.
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


def _print_alignment(report: Alignment) -> None:
    """A grid for each Python and CUDA whose cells are not all in all repositories: a row for each instruction
    set, a column for each GPU, and in it a letter for each repository."""
    letters = dict(zip(report.repositories, ascii_uppercase + ascii_lowercase, strict=False))
    for repository, letter in letters.items():
        write(printable(f"{letter}  {repository}"))
    write(f"{MISSING}  missing   {CANNOT}  cannot be made   blank: in no repository")
    for title, cells in grouped((_axes(row.cell)[0], row) for row in report.cells).items():
        if all(len(row.present) == len(report.repositories) for row in cells):
            write(f"{title}: {counted(len(cells), 'build')}, in all")
        else:
            _print_grid(title, cells, letters)
    hint = "; --create writes what is missing" if report.missing else ""
    write_stderr(f"{report.complete} of {len(report.cells)} builds are in every repository{hint}")
    for reason, count in Counter(why for row in report.cells for why in row.cannot.values()).items():
        write_stderr(f"{CANNOT}  {counted(count, 'build')}: {reason}")
    for recipe in report.unmatched:
        warn(printable(f"in no row: {recipe.path}: {recipe.why}"))


def _print_grid(title: str, cells: Sequence[AlignedCell], letters: Mapping[str, str]) -> None:
    at = {_axes(row.cell)[1:]: row for row in cells}
    gpus = list(dict.fromkeys(gpu for gpu, _ in at))
    rows: list[list[Painted]] = [[(title, "bold"), *((gpu, "bold") for gpu in gpus)]]
    rows += (
        [f"  {isa}", *(_marks(at.get((gpu, isa)), letters) for gpu in gpus)]
        for isa in dict.fromkeys(isa for _, isa in at)
    )
    columns(rows)


def _marks(row: AlignedCell | None, letters: Mapping[str, str]) -> Painted:
    """The repositories of a cell."""
    if row is None:
        return ""
    marks = "".join(
        MISSING if repository in row.missing else CANNOT if repository in row.cannot else letter
        for repository, letter in letters.items()
    )
    return (marks, "bold red") if row.missing else marks


def _axes(cell: str) -> tuple[str, str, str]:
    """`python313-cuda13_0-sm90-avx2` as what titles a grid, its column and its row."""
    python, platform, *rest = cell.split("-")
    gpu = rest.pop(0) if platform != "cpu" else ""
    return f"{python}-{platform}", gpu, "-".join(rest)


def _print_created(report: Alignment) -> None:
    """What was written, and what cannot be."""
    for path in report.written:
        write(printable(f"create  {path}"))
    for recipe in report.not_written:
        warn(f"cannot  {recipe.path.name}  {recipe.why}")
    if report.written and report.managed:
        write_stderr("torchsmith.toml has the builds of these repositories now.")
    elif report.written:
        write_stderr("These repositories have no torchsmith.toml: torchsmith does not manage the new files.")
    elif not report.not_written:
        write_stderr("nothing is missing")
