"""One run of `generate`: open the workspace, compare, and carry the changes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from torchsmith.edge.problem import Problem
from torchsmith.workspace import git
from torchsmith.workspace.compare import Change, compare
from torchsmith.workspace.generate import Commit, apply, commit_repos, one_at_a_time, tell_git
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.wanted import WantedRepo, wanted_repos


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    workspace: Path | None = None
    profile: str | None = None
    only: tuple[str, ...] = ()
    write: bool = True
    adopt: bool = False
    commit: bool = False
    git: bool = True
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What was done, or would be."""

    root: Path
    changes: tuple[Change, ...]
    written: bool
    commits: tuple[Commit, ...] = ()

    def of(self, *kinds: str) -> list[Change]:
        return [change for change in self.changes if change.kind in kinds]

    @property
    def pending(self) -> list[Change]:
        return self.of("create", "update", "adopt", "delete")

    @property
    def blocked(self) -> list[Change]:
        return self.of("blocked")


def generate(request: Request) -> Report:
    """Make the workspace what torchsmith.toml says, or say what that would take."""
    workspace = open_workspace(request.workspace, request.profile)
    if workspace.root is None:
        raise Problem(
            "there is no torchsmith.toml here or above",
            hint="torchsmith init writes one, then generate again",
        )
    root = workspace.root
    repos = _wanted(workspace, request.only)
    if not request.write:
        return Report(root, tuple(_compare(root, repos, request)), written=False)
    if request.git:
        git.require_git()
    with one_at_a_time(root, request.wait_seconds):
        changes = _compare(root, repos, request)
        apply(root, changes)
        commits: list[Commit] = []
        if request.git:
            tell_git(root, repos, changes)
            if request.commit:
                commits = commit_repos(root, repos, changes)
    return Report(root, tuple(changes), written=True, commits=tuple(commits))


def _compare(root: Path, repos: Iterable[WantedRepo], request: Request) -> list[Change]:
    # A part of the recipes says nothing about which others are wanted.
    return compare(root, list(repos), adopt=request.adopt, prune=not request.only)


def _wanted(workspace: Workspace, only: tuple[str, ...]) -> list[WantedRepo]:
    repos = wanted_repos(workspace.matrix, workspace.settings, workspace.catalog)
    if not only:
        return repos
    chosen = {cell.name for cell in workspace.select(only).cells}
    parts = [replace(repo, files=tuple(file for file in repo.files if file.cell in chosen)) for repo in repos]
    return [repo for repo in parts if repo.files]
