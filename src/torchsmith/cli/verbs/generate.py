"""`torchsmith generate`: the workspace's recipes and everything around them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.options import JsonOption, ProfileOption, WorkspaceOption

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds"


def run(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="With --adopt: take over these files alone, pages too."),
    ] = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Write just the recipes that this selector picks.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file is stale.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; print what would change.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; list what would be done.")
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Take over files that are not ours but no pages; git or .orig keeps them."
        ),
    ] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Commit in each repository.")] = False,
    git: Annotated[bool, typer.Option("--git/--no-git", help="Tell git of the files, as Flox needs.")] = True,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for another run to end.")] = 0.0,
    json: JsonOption = False,
) -> None:
    """Write the workspace: recipes, Flox files and pages for each package.

    Only files that torchsmith wrote, and nobody edited since, are replaced or deleted; everything else is
    reported and left. The exit code is 1 when something was left, or with [bold]--check[/bold] is stale.
    """
    from torchsmith.cli import generate_view as view
    from torchsmith.cli.options import adopting
    from torchsmith.workspace.run import GenerateRequest, generate

    report = generate(
        GenerateRequest(
            workspace=workspace,
            profile=profile,
            only=tuple(only or ()),
            write=not (check or diff or dry_run),
            adopt=adopting(adopt, paths),
            paths=tuple(paths or ()),
            commit=commit,
            git=git,
            wait_seconds=wait,
        )
    )
    if json:
        view.print_report_json(report)
    elif diff:
        view.print_diff(report)
    else:
        view.print_report(report, check=check, dry_run=dry_run)
    if report.blocked or (check and report.pending):
        raise typer.Exit(1)
