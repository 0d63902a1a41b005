"""`torchsmith fix-hashes`: the hashes that sources really have, written where they belong."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import exit_if, next_step

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith fix-hashes -w b sm120 --nixpkgs sample"


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    nixpkgs: NixpkgsOption = None,
    dry_run: Annotated[bool, Option("Write nothing; show the changes.")] = False,
    accept: Annotated[bool, Option("Also write a changed hash where a right one stood before.")] = False,
    json: JsonOption = False,
) -> None:
    """Fetch the sources of recipes, and write the hashes that they really have.

    All mismatches are found in one pass and written at once: for generated recipes into torchsmith.toml or
    the workspace's catalog folder, and generated again; in files of yours in place. Only sources are fetched,
    nothing is compiled. A source that is not nixpkgs' own and whose hash is stated where it cannot be seen,
    such as through a function, is named. The exit code is 1 when something is left for you, 3 when all that
    failed are downloads.
    """
    from torchsmith.building.start import workspace_record
    from torchsmith.cli.hash_run import mend

    with workspace_record(workspace) as (opened, record):
        trees = read_trees(nixpkgs or [])
        mended = mend(opened, record, recipes or [], trees, accept=accept, write=not dry_run, as_json=json)
    exit_if(mended.exit)
    next_step("build", "--dry-run", *(recipes or ()), workspace=workspace, nixpkgs=nixpkgs)
