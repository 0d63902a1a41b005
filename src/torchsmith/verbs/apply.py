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
    print_changes,
    print_report,
    show_plan,
    suggest_adoption,
)
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds"
Confirm = Callable[[ChangeReport], bool]  # whether files may be deleted


@dataclass(frozen=True, kw_only=True)
class ApplyRequest(PlanRequest):
    """Which plan to write, and what git does with it."""

    dry_run: Annotated[bool, Option("Write nothing; list the changes.")] = False
    commit: Annotated[bool, Option("Make one commit for each phase in each repository.")] = False
    git: Annotated[bool, Option("--git/--no-git", "Add the files to git, which Flox needs.")] = True
    allow_dirty: Annotated[bool, Option("With --commit: accept uncommitted changes.")] = False
    yes: YesOption = False
    wait: WaitOption = 0.0

    @property
    def words(self) -> list[str]:
        return self.which + ["--commit"] * self.commit


def apply(
    request: ApplyRequest = ApplyRequest(), reporter: Reporter = SILENT, confirm: Confirm | None = None
) -> ChangeReport:
    """Make a workspace what its torchsmith.toml says. A run that was interrupted is finished first. Raises
    Refused if files would be deleted, and neither the request's `yes` nor `confirm` agrees."""
    from torchsmith.workspace import git
    from torchsmith.workspace.journal import stopped_run, writing
    from torchsmith.workspace.write import commit_changes, require_clean, write_changes

    if request.commit and not request.git:
        raise Conflict("--commit needs git", hint="leave --no-git out")
    if request.dry_run:
        return request.planned()[1]
    if request.git:
        git.require_git()
    home = open_workspace(request.workspace, request.profile, recover=True).home
    _require_agreement(ChangeReport(home, False, (), stopped=stopped_run(home)), request, confirm)
    with writing(home, "apply", request.wait) as writer:
        reporter.note(writer.recovered)
        plan, report = request.planned()
        for repo in plan.repos if request.git else ():
            git.require_finished(writer.root / repo.name)
        if request.commit and not request.allow_dirty:
            require_clean(writer.root, plan.repos, plan.changes)
        _require_agreement(report, request, confirm)
        if request.commit:
            commit_changes(writer, plan.workspace, plan.repos, plan.changes)
        else:
            write_changes(writer, plan.repos, plan.changes, add=request.git)
    made = {"commits": writer.commits, "copies": writer.copies, "new_repos": sorted(writer.new_repos)}
    made["ignored"] = sorted({*writer.ignored, *report.ignored}) if request.git else []
    return msgspec.structs.replace(report, written=True, **made)


def run(*, request: ApplyRequest, view: ChangeView) -> None:
    """Write what [bold]plan[/bold] shows: recipes, Flox files and README pages for each package.

    Only files that torchsmith wrote and that were not edited since are replaced and deleted, unless
    [bold]--adopt[/bold] names others. It asks before it deletes files; without a terminal it needs
    [bold]--yes[/bold]. With [bold]--commit[/bold] each phase is a commit, and the repositories must be clean;
    an interrupted run resumes when you call it again. With [bold]--diff[/bold] and [bold]--check[/bold]
    nothing is written. The exit code is 1 when a file that torchsmith does not manage should change or is
    kept with errors, when a deletion is not confirmed, when git ignores a file that is wanted, or with
    [bold]--check[/bold] when any file should change.
    """
    from torchsmith.cli.reporter import Terminal

    if view.diff or view.check:
        request = replace(request, dry_run=True)
    report = apply(request, Terminal(), lambda report: _may_delete(report, request))
    if request.dry_run:
        show_plan(report, request, view)
        return
    print_report(report, view, request)
    suggest_adoption(report, request)
    broken = [change for change in report.changes if change.kind == "keep" and change.rules]
    kept = broken or [change for change in report.changes if change.warnings]
    if kept and not report.skipped:
        why = f"{counted(len(kept), 'recipe')} kept with {'errors' if broken else 'warnings'}"
        next_step("audit", str(request.workspace or "."), why=why)
    exit_if(report.skipped or broken or report.ignored)
    next_build(workspace=request.workspace)


def _require_agreement(report: ChangeReport, request: ApplyRequest, confirm: Confirm | None) -> None:
    """Raise Refused if files would be deleted, and neither the request nor `confirm` agrees."""
    if report.deleted and not request.yes and not (confirm or _not_agreed)(report):
        raise Refused("nothing was written")


def _not_agreed(report: ChangeReport) -> bool:
    """Raise Refused: there is no terminal to ask on."""
    deleted = report.deleted
    raise Refused(
        f"{counted(len(deleted), 'file')} would be deleted, such as {deleted[0]}: nothing was written",
        hint="--yes deletes without asking; --dry-run lists what would be done",
    )


def _may_delete(report: ChangeReport, request: ApplyRequest) -> bool:
    """Show the changes, and ask whether files may be deleted. Raises Refused without a terminal."""
    import sys

    print_changes(report, write_stderr, skipped=not request.adopts_paths)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return _not_agreed(report)
    sys.stderr.write(f"Delete {counted(len(report.deleted), 'file')}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
