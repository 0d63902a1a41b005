"""`torchsmith ci`: the matrix for GitHub's or Hydra's machinery."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.options import Selectors, WorkspaceOption
from torchsmith.cli.console import tell
from torchsmith.cli.group import Group
from torchsmith.core.problem import NotFound, TooLarge

EXAMPLE = "torchsmith ci github sm120 > torchsmith.yml"
app = Group(EXAMPLE)
WriteOption = Annotated[bool, Option("Write it into the workspace instead.")]


@app.describe
def run() -> None:
    """Write the matrix down as a GitHub workflow or a Hydra jobset.

    [bold]ci github[/bold] has a job for each torch with its companions and a binary cache wired in, [bold]ci
    hydra[/bold] a job for every cell.
    """


@app.command("github", EXAMPLE)
def github(
    selectors: Selectors = None, workspace: WorkspaceOption = None, write: WriteOption = False
) -> None:
    """Print a GitHub workflow: a job for each torch with its companions, a binary cache wired in.

    With [bold]--write[/bold] it becomes .github/workflows/torchsmith.yml of the workspace.
    """
    from torchsmith.building.ci import MOST, ci_rows, github_workflow
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    rows = ci_rows(opened.select(selectors or []).cells, opened.catalog)
    if len(rows) > MOST:
        raise TooLarge(f"{len(rows)} jobs are more than GitHub takes ({MOST})", hint="select fewer cells")
    text = github_workflow(rows, opened.catalog, opened.settings.ci.torchsmith)
    _give(opened.root, ".github/workflows/torchsmith.yml", text, write)


@app.command("hydra", "torchsmith ci hydra > release.nix")
def hydra(
    selectors: Selectors = None,
    workspace: WorkspaceOption = None,
    spec: Annotated[str, Option("Print the declarative jobset of this git address.", metavar="ADDRESS")] = "",
    branch: Annotated[str, Option("The branch that --spec names.")] = "main",
    write: WriteOption = False,
) -> None:
    """Print a Hydra jobset: an expression with a job for every cell; with --spec its description."""
    from torchsmith.building.ci import hydra_jobset, hydra_spec
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    if spec:
        _give(opened.root, "hydra-spec.json", hydra_spec(spec, branch), write)
    else:
        _give(opened.root, "release.nix", hydra_jobset(opened.select(selectors or []).cells), write)


def _give(root: Path | None, name: str, text: str, write: bool) -> None:
    from torchsmith.core.files import write_atomic

    if not write:
        sys.stdout.write(text)
        return
    if root is None:
        raise NotFound("there is no workspace to write into", hint="torchsmith init makes one")
    write_atomic(root / name, text)
    tell(f"wrote {root / name}")
