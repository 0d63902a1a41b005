"""`torchsmith apply`: carry the plan out."""

from __future__ import annotations

from torchsmith.api.options import JsonOption
from torchsmith.api.writing import ApplyRequest, apply
from torchsmith.cli.console import exit_if, next_step, print_json, tell, write
from torchsmith.cli.plan_view import may_delete, print_changes
from torchsmith.cli.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds --dry-run"


def run(*, request: ApplyRequest, json: JsonOption = False) -> None:
    """Carry the plan out, phase by phase, each phase a commit.

    It asks before it deletes files, and refuses where nobody can answer. A run that was stopped goes on where
    it was when it is called again. Files of others are left as they are unless [bold]--adopt[/bold] is given,
    and the exit code is then 1.
    """
    report = apply(request, Terminal(), may_delete)
    if json:
        print_json(report)
    else:
        print_changes(report, tell if report.written else write)
    if not report.written:
        if report.pending or report.skipped:
            next_step("apply", workspace=request.workspace)
        return
    exit_if(report.skipped)
    next_step("build", "--dry-run", workspace=request.workspace, why="estimates time, memory and disk")
