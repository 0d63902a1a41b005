"""`torchsmith plan`: what stands between the repositories and torchsmith.toml."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.writing import PlanRequest, plan
from torchsmith.cli.console import exit_if, next_step, print_json, tell
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import some_of
from torchsmith.verbs.plan_view import print_changes

EXAMPLE = "torchsmith init builds && torchsmith plan -w builds"


def run(
    *,
    request: PlanRequest,
    check: Annotated[bool, Option("Exit 1 if there is anything to do.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", "List every file and every reason.")] = False,
    json: JsonOption = False,
) -> None:
    """Show which files would be kept, created, rewritten, replaced or deleted, and why.

    Recipes that torchsmith does not manage are checked as [bold]audit[/bold] checks them: kept where
    torchsmith.toml asks for them and they have no error. Nothing is written; [bold]apply[/bold] carries the
    plan out. With [bold]--check[/bold] the exit code is 1 when a file should change.
    """
    report = plan(request)
    pending = report.pending or report.skipped
    if json:
        print_json(report)
    else:
        if print_changes(report, verbose=verbose):
            next_step("plan", "--verbose", workspace=request.workspace, why="every file")
        if report.torch_elsewhere:
            tell(f"torch is also set in {some_of(report.torch_elsewhere)}, which the plan leaves alone")
        if pending and not check:
            options = () if report.pending else ("--adopt",)
            if report.committer:
                next_step("apply", *options, workspace=request.workspace)
            else:
                why = "git knows no user.name and user.email"
                next_step("apply", *options, "--no-commit", workspace=request.workspace, why=why)
    exit_if(check and pending)
