"""`torchsmith apply`: carry the plan out."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.options import AdoptedPaths, JsonOption, ProfileOption, WaitOption, WorkspaceOption
from torchsmith.cli.console import exit_if, next_step

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds --dry-run"


def run(
    paths: AdoptedPaths = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    dry_run: Annotated[bool, Option("Write nothing; list what would be done.")] = False,
    adopt: Annotated[
        bool, Option("Rewrite, replace and delete recipes that are not torchsmith's, too.")
    ] = False,
    per_file: Annotated[bool, Option("A commit for each file, not each phase.")] = False,
    commit: Annotated[bool, Option("--commit/--no-commit", "Commit in each repository.")] = True,
    allow_dirty: Annotated[bool, Option("Go on although something is not committed.")] = False,
    wait: WaitOption = 0.0,
    json: JsonOption = False,
) -> None:
    """Carry the plan out, phase by phase, each phase a commit.

    A run that was stopped goes on where it was when it is called again. Files of others are left as they are
    unless [bold]--adopt[/bold] is given, and the exit code is then 1.
    """
    from torchsmith.cli import plan_view as view
    from torchsmith.edit.plan import ApplyRequest, apply_plan, plan_workspace

    named = tuple(paths or ())
    if dry_run:
        plan = plan_workspace(workspace, profile, adopt=adopt, paths=named)
        view.print_plan_json(plan) if json else view.print_plan(plan, workspace)
        if any(one.kind != "keep" for one in plan.changes):
            next_step("apply", workspace=workspace)
        return
    applied = apply_plan(ApplyRequest(workspace, profile, adopt, named, allow_dirty, per_file, commit, wait))
    view.print_applied_json(applied) if json else view.print_applied(applied)
    exit_if(applied.left)
    next_step("build", "--dry-run", workspace=workspace, why="what would it take?")
