"""`torchsmith apply`: carry the plan out."""

from __future__ import annotations

from torchsmith.api.writing import ApplyRequest, apply
from torchsmith.cli.console import exit_if, next_build, next_step, print_json, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.core.text import counted
from torchsmith.verbs.plan_view import may_delete, print_changes

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds --dry-run"


def run(*, request: ApplyRequest, json: JsonOption = False) -> None:
    """Carry out the plan, one commit per phase.

    It asks before it deletes files, and refuses to without a terminal. An interrupted run continues where it
    stopped when you call it again. Without [bold]--adopt[/bold], files that torchsmith does not manage stay
    as they are. The exit code is 1 when a file that torchsmith does not manage should change, or when a
    repository has changes that are not committed.
    """
    report = apply(request, Terminal(), may_delete)
    if json:
        print_json(report)
    elif print_changes(report, tell if report.written else write) and not report.written:
        next_step("plan", "--verbose", workspace=request.workspace, why="every file")
    if not report.written:
        if report.pending or report.skipped:
            next_step("apply", workspace=request.workspace)
        return
    if report.skipped:
        why = f"replaces {counted(len(report.skipped), 'file')} that torchsmith does not manage"
        options = ("--adopt",) if request.commit else ("--adopt", "--no-commit")
        next_step("apply", *options, workspace=request.workspace, why=why)
    exit_if(report.skipped)
    if left := sum(bool(change.warnings) for change in report.changes):
        why = f"{counted(left, 'recipe')} kept with warnings"
        next_step("audit", str(request.workspace or "."), why=why)
    next_build(workspace=request.workspace)
