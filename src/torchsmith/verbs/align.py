"""`torchsmith align`: which builds several repositories have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from torchsmith.cli.console import exit_if, next_step, print_json, warn, write, write_stderr
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.text import counted, grouped, listed, printable
from torchsmith.edit.align import Alignment, align_repositories
from torchsmith.workspace.checkout import workspace_folder

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith align builds"


@dataclass(frozen=True, kw_only=True)
class AlignRequest(Request):
    """Which repositories to compare, and whether to write what is missing."""

    paths: Annotated[
        tuple[Path, ...], Argument("Repositories, or a folder that contains them.", metavar="[REPO]...")
    ] = ()
    workspace: WorkspaceOption = None
    create: Annotated[bool, Option("Write the recipes that are missing.")] = False


def align(request: AlignRequest = AlignRequest()) -> Alignment:
    """Compare the builds of repositories; `create` writes what is missing."""
    paths = request.paths or (workspace_folder(request.workspace),)
    return align_repositories(paths, request.workspace, create=request.create)


def run(*, request: AlignRequest, json: JsonOption = False) -> None:
    """Compare the builds of several repositories, or of the packages in one, and list what each lacks.

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
    """What each repository lacks, the sum, and why builds cannot be made."""
    lacking = grouped(
        (tuple(row.cell for row in report.cells if repository in row.missing), repository)
        for repository in report.repositories
    )
    for missing, repositories in lacking.items():
        if missing:
            verb = "lack" if len(repositories) > 1 else "lacks"
            title = f"{listed(repositories)} {verb} {counted(len(missing), 'build')}"
            write(printable(title), "bold")
        split = (cell.partition("-") for cell in missing)
        for target, pythons in grouped((target, python) for python, _, target in split).items():
            write(f"  {', '.join(pythons)}-{target}")
    hint = "; --create writes what is missing" if report.missing else ""
    write(f"{report.complete} of {len(report.cells)} builds are in every repository{hint}")
    reasons = Counter((repository, why) for row in report.cells for repository, why in row.cannot.items())
    for (repository, why), count in reasons.items():
        write_stderr(printable(f"{repository} cannot have {counted(count, 'build')}: {why}"))
    for recipe in report.unmatched:
        warn(printable(f"not compared: {recipe.path}: {recipe.why}"))


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
