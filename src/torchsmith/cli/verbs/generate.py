"""`torchsmith generate`: the workspace's recipes and everything around them."""

from __future__ import annotations

import sys

from torchsmith.api.options import JsonOption
from torchsmith.api.writing import GenerateRequest, generate
from torchsmith.cli.console import exit_if, next_step, print_json, tell, write
from torchsmith.cli.plan_view import may_delete, print_changes
from torchsmith.cli.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds"


def run(*, request: GenerateRequest, json: JsonOption = False) -> None:
    """Write the workspace: recipes, Flox files and pages for each package.

    Only files that torchsmith wrote, and nobody edited since, are replaced or deleted; it asks before it
    deletes any, and refuses where nobody can answer. Files of others stay, and [bold]plan[/bold] judges them.
    The exit code is 1 when an edited file was left, or with [bold]--check[/bold] one is stale.
    """
    report = generate(request, Terminal(), may_delete)
    if json:
        print_json(report)
    elif request.diff:
        sys.stdout.writelines(change.diff for change in report.changes)
    else:
        print_changes(report, tell if report.written else write, verbose=request.check)
        if report.skipped:
            next_step("plan", workspace=request.workspace, why="audits the files left unchanged")
        elif report.written:
            next_step("audit", str(request.workspace or "."), why="checks them")
            next_step(
                "build", "--dry-run", workspace=request.workspace, why="estimates time, memory and disk"
            )
    exit_if(report.conflicts or (request.check and report.pending))
