"""`torchsmith ci`: the matrix for GitHub's or Hydra's machinery."""

from __future__ import annotations

import sys

from torchsmith.api import ci
from torchsmith.api.ci import CiReport, CiRequest, HydraRequest
from torchsmith.cli.console import tell
from torchsmith.cli.group import Group

EXAMPLE = "torchsmith ci github sm120 > torchsmith.yml"
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Write the matrix as a GitHub workflow or a Hydra jobset.

    [bold]ci github[/bold] has a job for each torch with its companions and uses a binary cache; [bold]ci
    hydra[/bold] has a job for every cell.
    """


@app.command("github", EXAMPLE)
def github(*, request: CiRequest) -> None:
    """Print a GitHub workflow: a job for each torch with its companions, and a binary cache.

    [bold]--write[/bold] writes it to .github/workflows/torchsmith.yml of the workspace.
    """
    _print(ci.github(request))


@app.command("hydra", "torchsmith ci hydra > release.nix")
def hydra(*, request: HydraRequest) -> None:
    """Print a Hydra jobset: an expression with a job for every cell; with --spec its description."""
    _print(ci.hydra(request))


def _print(report: CiReport) -> None:
    if report.written is None:
        sys.stdout.write(report.text)
    else:
        tell(f"wrote {report.written}")
