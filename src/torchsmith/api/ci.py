"""The matrix written down for the machinery of others: a GitHub workflow, a Hydra jobset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.options import Selectors, WorkspaceOption
from torchsmith.building.ci import MOST, ci_rows, github_workflow, hydra_jobset, hydra_spec
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import NotFound, TooLarge
from torchsmith.workspace.load import Workspace, open_workspace


@dataclass(frozen=True, kw_only=True)
class CiRequest:
    """The cells to write down, and whether into the workspace."""

    selectors: Selectors = ()
    workspace: WorkspaceOption = None
    write: Annotated[bool, Option("Write the file into the workspace.")] = False


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
    """A workflow with a job for each torch and its companions; raises TooLarge where GitHub takes fewer."""
    opened = open_workspace(request.workspace)
    rows = ci_rows(opened.select(request.selectors or ()).cells, opened.catalog)
    if len(rows) > MOST:
        raise TooLarge(f"{len(rows)} jobs are more than GitHub takes ({MOST})", hint="select fewer cells")
    text = github_workflow(rows, opened.catalog, opened.settings.ci.torchsmith)
    return _report(request, opened, ".github/workflows/torchsmith.yml", text)


def hydra(request: HydraRequest) -> CiReport:
    """An expression with a job for every cell; with `spec` its description."""
    opened = open_workspace(request.workspace)
    if request.spec:
        return _report(request, opened, "hydra-spec.json", hydra_spec(request.spec, request.branch))
    cells = opened.select(request.selectors or ()).cells
    return _report(request, opened, "release.nix", hydra_jobset(cells))


def _report(request: CiRequest, workspace: Workspace, name: str, text: str) -> CiReport:
    if not request.write:
        return CiReport(text=text)
    if workspace.root is None:
        raise NotFound("there is no workspace to write into", hint="torchsmith init makes one")
    write_atomic(workspace.root / name, text)
    return CiReport(text=text, written=workspace.root / name)
