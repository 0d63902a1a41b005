"""`torchsmith rehearse`: in minutes what a build of hours would stumble over, and what it would take."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import exit_if, next_step
from torchsmith.core.problem import Incomplete

EXAMPLE = (
    "torchsmith init b && torchsmith generate -w b &&"
    " torchsmith rehearse -w b sm120 pytorch --dry-run --nixpkgs sample"
)


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    every: Annotated[
        bool, Option("--all", "All recipes of the workspace; equal ones are rehearsed once.")
    ] = False,
    dry_run: Annotated[bool, Option("Say what would be rehearsed and stop.")] = False,
    jobs: Annotated[
        int | None, Option("--jobs", "-j", "Rehearsals side by side here; 0: only other builders.", min=0)
    ] = None,
    cores: Annotated[int | None, Option("Cores for all of them together.", min=1)] = None,
    nixpkgs: NixpkgsOption = None,
    local: Annotated[bool, Option("Use this machine alone.")] = False,
    timeout: Annotated[int, Option("Seconds that one may take.", min=0)] = 0,
    json: JsonOption = False,
) -> None:
    """Configure a build as it is, compile a sample of its objects, and say what that shows of the whole.

    The derivation is the recipe's own with another build phase: same environment, flags and patches; nothing
    is linked, installed or checked. The objects are held against the name's promise, the flags of all
    objects too, and the time of the whole is reckoned: [bold]build --dry-run[/bold] knows it from then on.
    The exit code is 1 where something fails or is not what the name says, 3 where all that failed are
    downloads.
    """
    from torchsmith.building.plan import Means
    from torchsmith.building.start import BuildRequest, workspace_record
    from torchsmith.cli.rehearse_run import rehearse

    if not recipes and not every:
        raise Incomplete("name what to rehearse", hint="names, selectors such as sm120, or --all")
    request = BuildRequest(
        workspace=workspace,
        selectors=tuple(recipes or ()),
        trees=read_trees(nixpkgs or []),
        means=Means(jobs, cores, None),
        local=local,
        timeout=timeout,
        rehearse=True,
    )
    with workspace_record(workspace, read_only=dry_run) as (opened, record):
        exit_if(rehearse(request, opened, record, dry_run=dry_run, every=every, as_json=json))
    words = ["rehearse"] if dry_run else ["build", "--dry-run"]
    next_step(*words, *(recipes or ()), workspace=workspace, nixpkgs=nixpkgs)
