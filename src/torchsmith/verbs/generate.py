"""`torchsmith generate`: the workspace's recipes and everything around them."""

from __future__ import annotations

import sys

from torchsmith.api.writing import GenerateRequest, generate
from torchsmith.cli.console import exit_if, next_build, next_step, print_json, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.verbs.plan_view import may_delete, print_changes

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds"


def run(*, request: GenerateRequest, json: JsonOption = False) -> None:
    """Write the workspace: recipes, Flox files and README pages for each package.

    It replaces and deletes only files that torchsmith wrote and that were not edited since; it asks before
    deleting, and refuses to without a terminal. Other files stay unchanged, and [bold]plan[/bold] checks
    them. The exit code is 1 when an edited file was left, or with [bold]--check[/bold] when a file is out of
    date.
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
            next_build(workspace=request.workspace)
    exit_if(report.conflicts or (request.check and report.pending))
