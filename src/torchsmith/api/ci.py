"""The matrix written down for the machinery of others: a GitHub workflow, a Hydra jobset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated

from torchsmith import __version__
from torchsmith.building.ci import (
    MOST_JOBS,
    ci_rows,
    github_workflow,
    hydra_jobset,
    hydra_spec,
    workflow_name,
)
from torchsmith.cli.fields import Option
from torchsmith.cli.options import Selectors, WorkspaceOption
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import Incomplete, NotFound, TooLarge
from torchsmith.core.text import shell_word
from torchsmith.workspace import git
from torchsmith.workspace.load import Workspace, open_workspace


@dataclass(frozen=True, kw_only=True)
class CiRequest:
    """The cells to write down, and whether into the workspace."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    write: Annotated[bool, Option("Write the file to where it is read, instead of printing it.")] = False


@dataclass(frozen=True, kw_only=True)
class HydraRequest(CiRequest):
    """The same for Hydra, or the description of a jobset."""

    spec: Annotated[str, Option("Print the declarative jobset for this git address.", metavar="ADDRESS")] = ""
    branch: Annotated[str, Option("The branch that --spec names.")] = "main"


@dataclass(frozen=True, kw_only=True)
class CiReport:
    """A file for others to read, and where it was written."""

    text: str
    written: Path | None = None


def github(request: CiRequest) -> CiReport:
    """A workflow that audits, and builds each torch with its companions; raises TooLarge where GitHub takes
    fewer jobs, Incomplete where the workspace does not say what to install torchsmith from."""
    workspace = open_workspace(request.workspace)
    repository, folder = _place(workspace.home)
    install = _install(workspace)
    rows = ci_rows(workspace.select(request.selectors).cells, workspace.catalog)
    if len(rows) > MOST_JOBS:
        raise TooLarge(
            f"{len(rows)} jobs are more than GitHub takes ({MOST_JOBS})", hint="select fewer cells"
        )
    text = github_workflow(rows, workspace.catalog, install, folder)
    return _report(request, repository / f".github/workflows/{workflow_name(folder)}.yml", text)


def hydra(request: HydraRequest) -> CiReport:
    """An expression with a job for every cell; with `spec` its description."""
    workspace = open_workspace(request.workspace)
    repository, folder = _place(workspace.home)
    if request.spec:
        spec = hydra_spec(request.spec, request.branch, folder)
        return _report(request, repository / "hydra-spec.json", spec)
    cells = workspace.select(request.selectors).cells
    return _report(request, workspace.home / "release.nix", hydra_jobset(cells))


def _place(home: Path) -> tuple[Path, PurePath]:
    """The repository of a workspace and its folder in there; without git it is its own repository."""
    repository = git.top(home) or home.absolute()
    return repository, home.absolute().relative_to(repository)


def _install(workspace: Workspace) -> str:
    """What pip installs in CI, as torchsmith.toml says: an address, or a wheel that is there."""
    install = workspace.settings.ci.torchsmith
    wheel = f"wheels/torchsmith-{__version__}-py3-none-any.whl"
    wheels = shell_word(str(Path(workspace.source.name).parent / "wheels"))
    make = f"pip wheel --no-deps -w {wheels} PATH-OF-YOUR-CLONE"
    if not install:
        raise Incomplete(
            f"{workspace.source.name} does not say what CI installs torchsmith from",
            hint=f'add [ci] torchsmith = "git+https://..." (a fork, @COMMIT), or "{wheel}" after {make}',
        )
    if install.endswith(".whl") and ":" not in install and not (workspace.home / install).is_file():
        raise NotFound(
            f"{workspace.source.name}: [ci] torchsmith: there is no {install} in the workspace",
            hint=f"{make} makes it; commit it",
        )
    return install


def _report(request: CiRequest, place: Path, text: str) -> CiReport:
    if not request.write:
        return CiReport(text=text)
    write_atomic(place, text)
    return CiReport(text=text, written=place)
