"""`torchsmith apply`: write what a plan shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from torchsmith.cli.console import exit_if, next_build, next_step, write_stderr
from torchsmith.cli.options import WaitOption, YesOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.request import Option
from torchsmith.core.problem import Conflict, Refused
from torchsmith.core.text import counted
from torchsmith.verbs.plan import (
    ChangeReport,
    ChangeView,
    PlanRequest,
    end_of_plan,
    print_changes,
    print_report,
)
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds"
Confirm = Callable[[ChangeReport], bool]  # whether files may be deleted


@dataclass(frozen=True, kw_only=True)
class ApplyRequest(PlanRequest):
    """Which plan to write, and what git does with it."""

    dry_run: Annotated[bool, Option("Write nothing; list the changes.")] = False
    commit: Annotated[bool, Option("Make one commit for each phase in each repository.")] = False
    per_file: Annotated[bool, Option("With --commit: one commit for each file.")] = False
    git: Annotated[bool, Option("--git/--no-git", "Add the files to git, which Flox needs.")] = True
    allow_dirty: Annotated[bool, Option("With --commit: accept uncommitted changes.")] = False
    yes: YesOption = False
    wait: WaitOption = 0.0


def apply(
    request: ApplyRequest, reporter: Reporter = SILENT, confirm: Confirm = lambda report: False
) -> ChangeReport:
    """Make a workspace what its torchsmith.toml says. A run that was interrupted is finished first. Raises
    Refused if files would be deleted, unless the request says `yes` or `confirm` agrees."""
    from torchsmith.workspace import git
    from torchsmith.workspace.journal import writing
    from torchsmith.workspace.write import commit_changes, require_clean, write_changes

    if request.commit and not request.git:
        raise Conflict("--commit needs git", hint="leave --no-git out")
    if request.per_file and not request.commit:
        raise Conflict("--per-file says how to commit", hint="add --commit")
    if request.dry_run:
        return request.planned()[1]
    if request.git:
        git.require_git()
    home = open_workspace(request.workspace, request.profile, recover=True).home
    with writing(home, "apply", request.wait) as writer:
        reporter.note(writer.recovered)
        plan, report = request.planned()
        if request.commit and not request.allow_dirty:
            require_clean(writer.root, plan.repos)
        deleted = [change.path for change in report.pending if change.kind == "delete"]
        if deleted and not request.yes and not confirm(report):
            count = counted(len(deleted), "file")
            raise Refused(
                f"{count} would be deleted, such as {deleted[0]}: nothing was written",
                hint="--yes deletes without asking; --dry-run lists what would be done",
            )
        if request.commit:
            commit_changes(writer, plan.workspace, plan.repos, plan.changes, per_file=request.per_file)
        else:
            write_changes(writer, plan.repos, plan.changes, add=request.git)
    commits, copies = tuple(writer.commits), tuple(writer.copies)
    return msgspec.structs.replace(report, written=True, commits=commits, copies=copies)


def run(*, request: ApplyRequest, view: ChangeView) -> None:
    """Write what [bold]plan[/bold] shows: recipes, Flox files and README pages for each package.

    Only files that torchsmith wrote and that were not edited since are replaced and deleted, unless
    [bold]--adopt[/bold] names others. It asks before it deletes files, and refuses to without a terminal.
    With [bold]--commit[/bold] each phase is a commit, and the repositories must be clean; an interrupted run
    resumes when you call it again. With [bold]--diff[/bold] and [bold]--check[/bold] nothing is written. The
    exit code is 1 when a file that torchsmith does not manage should change, or with [bold]--check[/bold]
    when any file should.
    """
    from torchsmith.cli.reporter import Terminal

    if view.diff or view.check:
        request = replace(request, dry_run=True)
    report = apply(request, Terminal(), _may_delete)
    print_report(report, view)
    if request.dry_run:
        end_of_plan(report, request.workspace, check=view.check)
        return
    if report.skipped:
        why = f"replaces {counted(len(report.skipped), 'file')} that torchsmith does not manage"
        commit = ("--commit",) if request.commit else ()
        next_step("apply", "--adopt", "all", *commit, workspace=request.workspace, why=why)
    exit_if(report.skipped)
    if warned := sum(bool(change.warnings) for change in report.changes):
        why = f"{counted(warned, 'recipe')} kept with warnings"
        next_step("audit", str(request.workspace or "."), why=why)
    next_build(workspace=request.workspace)


def _may_delete(report: ChangeReport) -> bool:
    """Show the changes, and ask whether files may be deleted; no without a terminal."""
    import sys

    print_changes(report, write_stderr)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    count = sum(change.kind == "delete" for change in report.pending)
    sys.stderr.write(f"Delete {counted(count, 'file')}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
