"""`torchsmith ci`: the matrix as a GitHub workflow or a Hydra jobset."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePath

from torchsmith.building.ci import MOST_JOBS, ci_rows, github_workflow, hydra_jobset
from torchsmith.cli.options import Selectors, WorkspaceOption
from torchsmith.cli.request import Request
from torchsmith.core.problem import Incomplete, NotFound, TooLarge
from torchsmith.core.text import shell_word
from torchsmith.workspace import git
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith ci hydra -w builds"
EXAMPLE_LINES = '[ci]\ntorchsmith = "git+https://github.com/YOUR-FORK/torchsmith@COMMIT"'


@dataclass(frozen=True, kw_only=True)
class CiRequest(Request):
    """Which builds."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None


def ci_github(request: CiRequest = CiRequest()) -> str:
    """A workflow that audits, and builds each torch with its companions. It fails if recipes are stale; those
    that repositories of their own keep it generates. Raises TooLarge if GitHub takes fewer jobs, Incomplete
    if the workspace does not say what to install torchsmith from."""
    workspace = open_workspace(request.workspace)
    folder = _folder(workspace.home)
    install = _install(workspace)
    cells = workspace.select(request.selectors).cells
    rows = ci_rows(cells, workspace.catalog)
    committed = not any(git.is_repo(workspace.home / cell.variant.package.folder) for cell in cells)
    if len(rows) > MOST_JOBS:
        raise TooLarge(
            f"{len(rows)} jobs are more than GitHub takes ({MOST_JOBS})", hint="select fewer builds"
        )
    return github_workflow(rows, workspace.catalog, install, folder, committed=committed)


def ci_hydra(request: CiRequest = CiRequest()) -> str:
    """An expression with a job for every build, which belongs beside torchsmith.toml."""
    workspace = open_workspace(request.workspace)
    _ = workspace.home  # raises NotFound without a workspace: the jobset is read from there
    return hydra_jobset(workspace.select(request.selectors).cells)


def _folder(home: Path) -> PurePath:
    """The place of a workspace in its repository."""
    return home.absolute().relative_to(git.top(home) or home.absolute())


def _install(workspace: Workspace) -> str:
    """What pip installs in CI, as torchsmith.toml says: an address, or a wheel of the workspace."""
    install = workspace.settings.ci.torchsmith
    if not install:
        raise Incomplete(
            f"{workspace.source.name} does not say what CI installs torchsmith from",
            hint=f"add these lines; a wheel in the workspace works too:\n{EXAMPLE_LINES}",
        )
    if install.endswith(".whl") and ":" not in install and not (workspace.home / install).is_file():
        folder = shell_word(str((workspace.home / install).parent))
        raise NotFound(
            f"{workspace.source.name}: [ci] torchsmith: the workspace has no {install}",
            hint=f"pip wheel --no-deps -w {folder} PATH-OF-YOUR-CLONE makes one; write its name there",
        )
    return install


def run() -> None:
    """Print the matrix as a GitHub workflow or a Hydra jobset.

    [bold]ci github[/bold] has a job for each torch with its companions and uses a binary cache; [bold]ci
    hydra[/bold] has a job for every build.
    """


def github(*, request: CiRequest) -> None:
    """Print a GitHub workflow: an audit, and after a push a job for each torch with its companions.

    It fails if recipes are not what torchsmith.toml says; recipes that repositories of their own keep are
    generated instead. Each build is verified. [bold][ci] torchsmith[/bold] in torchsmith.toml says what pip
    installs: the address of your fork, or a wheel in the workspace. GitHub reads workflows from
    .github/workflows at the top of a repository.
    """
    sys.stdout.write(ci_github(request))


def hydra(*, request: CiRequest) -> None:
    """Print a Hydra jobset, the release.nix of a workspace: an expression with a job for every build."""
    sys.stdout.write(ci_hydra(request))


COMMANDS = {
    "github": (
        github,
        "mkdir -p .github/workflows && torchsmith ci github > .github/workflows/torchsmith.yml",
    ),
    "hydra": (hydra, EXAMPLE),
}
