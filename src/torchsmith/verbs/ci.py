"""`torchsmith ci`: the matrix as a GitHub workflow or a Hydra jobset."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated

from torchsmith.building.ci import (
    MOST_JOBS,
    ci_rows,
    github_workflow,
    hydra_jobset,
    workflow_name,
)
from torchsmith.cli.console import write_stderr
from torchsmith.cli.options import Selectors, WorkspaceOption
from torchsmith.cli.request import Option, Request
from torchsmith.core.files import check_own, inside, write_atomic
from torchsmith.core.problem import Incomplete, NotFound, TooLarge
from torchsmith.core.text import shell_word
from torchsmith.workspace import git
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith ci hydra -w builds"
EXAMPLE_LINES = '[ci]\ntorchsmith = "git+https://github.com/YOUR-FORK/torchsmith@COMMIT"'


@dataclass(frozen=True, kw_only=True)
class CiRequest(Request):
    """Which builds, and whether to write the file."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    write: Annotated[bool, Option("Write the file to where it is read, instead of printing it.")] = False


@dataclass(frozen=True, kw_only=True)
class CiReport:
    """The text of a file, and where it was written."""

    text: str
    written: Path | None = None


def ci_github(request: CiRequest) -> CiReport:
    """A workflow that audits, and builds each torch with its companions. Raises TooLarge if GitHub takes
    fewer jobs, Incomplete if the workspace does not say what to install torchsmith from."""
    workspace = open_workspace(request.workspace)
    repository, folder = _place(workspace.home)
    install = _install(workspace)
    rows = ci_rows(workspace.select(request.selectors).cells, workspace.catalog)
    if len(rows) > MOST_JOBS:
        raise TooLarge(
            f"{len(rows)} jobs are more than GitHub takes ({MOST_JOBS})", hint="select fewer builds"
        )
    text = github_workflow(rows, workspace.catalog, install, folder)
    return _report(request, repository, repository / f".github/workflows/{workflow_name(folder)}.yml", text)


def ci_hydra(request: CiRequest) -> CiReport:
    """An expression with a job for every build."""
    workspace = open_workspace(request.workspace)
    cells = workspace.select(request.selectors).cells
    return _report(request, workspace.home, workspace.home / "release.nix", hydra_jobset(cells))


def _place(home: Path) -> tuple[Path, PurePath]:
    """The repository of a workspace and its folder in it; without git, the workspace itself."""
    repository = git.top(home) or home.absolute()
    return repository, home.absolute().relative_to(repository)


def _install(workspace: Workspace) -> str:
    """What pip installs in CI, as torchsmith.toml says: an address, or a wheel of the workspace."""
    install = workspace.settings.ci.torchsmith
    if not install:
        raise Incomplete(
            f"{workspace.source.name} does not say what CI installs torchsmith from",
            hint=f"add these lines; a wheel in the workspace works too:\n{EXAMPLE_LINES}",
        )
    if install.endswith(".whl") and ":" not in install and not (workspace.home / install).is_file():
        wheels = shell_word(str(Path(workspace.source.name).parent / "wheels"))
        raise NotFound(
            f"{workspace.source.name}: [ci] torchsmith: the workspace has no {install}",
            hint=f"pip wheel --no-deps -w {wheels} PATH-OF-YOUR-CLONE makes it; commit it",
        )
    return install


def _report(request: CiRequest, root: Path, place: Path, text: str) -> CiReport:
    if not request.write:
        return CiReport(text=text)
    inside(root, str(place.relative_to(root)))  # not through a link
    check_own(place, text.partition("\n")[0])
    write_atomic(place, text)
    return CiReport(text=text, written=place)


def run() -> None:
    """Write the matrix as a GitHub workflow or a Hydra jobset.

    [bold]ci github[/bold] has a job for each torch with its companions and uses a binary cache; [bold]ci
    hydra[/bold] has a job for every build.
    """


def github(*, request: CiRequest) -> None:
    """Print a GitHub workflow: an audit, then a job for each torch with its companions.

    Each build is verified. [bold][ci] torchsmith[/bold] in torchsmith.toml says what pip installs: the
    address of your fork, or a wheel in the workspace. [bold]--write[/bold] writes the workflow to
    .github/workflows of the repository that the workspace is in.
    """
    _print(ci_github(request))


def hydra(*, request: CiRequest) -> None:
    """Print a Hydra jobset: an expression with a job for every build."""
    _print(ci_hydra(request))


def _print(report: CiReport) -> None:
    if report.written is None:
        sys.stdout.write(report.text)
    else:
        write_stderr(f"wrote {report.written}")


COMMANDS = {
    "github": (github, "torchsmith ci github --write"),
    "hydra": (hydra, EXAMPLE),
}
