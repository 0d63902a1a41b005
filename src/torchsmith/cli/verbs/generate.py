"""`torchsmith generate`: the workspace's recipes and everything around them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.cli.options import JsonOption, ProfileOption, WaitOption, WorkspaceOption
from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds"


def run(
    paths: Annotated[
        list[Path] | None,
        Argument(metavar="[PATH]...", help="With --adopt: take over these files alone, pages too."),
    ] = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    only: Annotated[
        list[str] | None, Option("--only", help="Write just the recipes that this selector picks.")
    ] = None,
    check: Annotated[bool, Option("--check", help="Write nothing; exit 1 if a file is stale.")] = False,
    diff: Annotated[bool, Option("--diff", help="Write nothing; print what would change.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Write nothing; list what would be done.")] = False,
    adopt: Annotated[
        bool,
        Option("--adopt", help="Take over files that are not ours but no pages; git or .orig keeps them."),
    ] = False,
    commit: Annotated[bool, Option("--commit", help="Commit in each repository.")] = False,
    git: Annotated[bool, Option("--git/--no-git", help="Tell git of the files, as Flox needs.")] = True,
    wait: WaitOption = 0.0,
    json: JsonOption = False,
) -> None:
    """Write the workspace: recipes, Flox files and pages for each package.

    Only files that torchsmith wrote, and nobody edited since, are replaced or deleted; everything else is
    reported and left. The exit code is 1 when something was left, or with [bold]--check[/bold] is stale.
    """
    from torchsmith.cli import generate_view as view
    from torchsmith.cli.next_step import next_step
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
        if not (report.blocked or check or dry_run):
            next_step("audit", str(workspace or "."), why="are they right?")
            next_step("build", "--dry-run", workspace=workspace, why="what would it take?")
    if report.blocked or (check and report.pending):
        raise SystemExit(1)
