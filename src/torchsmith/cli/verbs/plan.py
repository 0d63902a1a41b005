"""`torchsmith plan`: what stands between the repositories and torchsmith.toml."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.console import exit_if, next_step, tell
from torchsmith.core.words import some_of

EXAMPLE = "torchsmith init builds && torchsmith plan -w builds"


def run(
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    check: Annotated[bool, Option("Exit 1 when there is anything to do.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", "Every file, and every reason.")] = False,
    json: JsonOption = False,
) -> None:
    """Say which files to keep, create, rewrite, replace or delete, and why; alike ones are counted.

    Recipes that are not torchsmith's are judged as [bold]audit[/bold] judges them: kept where they are
    wanted and without an error. Nothing is written; [bold]apply[/bold] carries the plan out.
    """
    from torchsmith.cli import plan_view as view
    from torchsmith.edit.plan import plan_workspace
    from torchsmith.workspace.checkout import workspace_folder
    from torchsmith.workspace.derive import torch_elsewhere
    from torchsmith.workspace.load import open_workspace

    plan = plan_workspace(workspace, profile)
    if json:
        view.print_plan_json(plan)
    else:
        view.print_plan(plan, workspace, verbose=verbose)
        folder = workspace_folder(workspace)
        beside = torch_elsewhere(folder, open_workspace(folder).catalog)
        if beside:
            tell(f"torch is also set in {some_of(beside)}, which the plan leaves alone")
        if plan.pending and not check:
            next_step("apply", workspace=workspace)
    exit_if(check and plan.pending)
