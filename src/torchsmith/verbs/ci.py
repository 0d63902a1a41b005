"""`torchsmith ci`: the matrix for GitHub's or Hydra's machinery."""

from __future__ import annotations

import sys

from torchsmith.api import ci
from torchsmith.api.ci import CiReport, CiRequest, HydraRequest
from torchsmith.cli.console import tell
from torchsmith.cli.group import Group

EXAMPLE = "torchsmith init builds && torchsmith ci hydra -w builds"
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Write the matrix as a GitHub workflow or a Hydra jobset.

    [bold]ci github[/bold] has a job for each torch with its companions and uses a binary cache; [bold]ci
    hydra[/bold] has a job for every cell.
    """


@app.command("github", "torchsmith ci github --write")
def github(*, request: CiRequest) -> None:
    """Print a GitHub workflow: an audit, then a job for each torch with its companions.

    Each build is verified. [bold][ci] torchsmith[/bold] in torchsmith.toml says what pip installs: the
    address of your fork, or a wheel in the workspace. [bold]--write[/bold] writes the workflow to
    .github/workflows of the repository that the workspace is in.
    """
    _print(ci.github(request))


@app.command("hydra", EXAMPLE)
def hydra(*, request: HydraRequest) -> None:
    """Print a Hydra jobset: an expression with a job for every cell; with --spec its description."""
    _print(ci.hydra(request))


def _print(report: CiReport) -> None:
    if report.written is None:
        sys.stdout.write(report.text)
    else:
        tell(f"wrote {report.written}")
