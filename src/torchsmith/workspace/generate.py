"""Carrying changes out: every file whole or not at all, then git told of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchsmith.edge.files import write_atomic
from torchsmith.edge.lock import exclusive
from torchsmith.edge.problem import Exit, Problem
from torchsmith.workspace import git
from torchsmith.workspace.compare import Change
from torchsmith.workspace.wanted import WantedRepo

STATE = ".torchsmith"  # lock and unfinished files of a workspace, never in a repository
WRITES = ("create", "update", "adopt")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was made in a repository."""

    repo: str
    revision: str
    message: str


@contextmanager
def one_at_a_time(root: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the workspace; unfinished files of a run that was killed are swept away."""
    with exclusive(root / STATE / "lock", what=f"workspace {root}", wait_seconds=wait_seconds):
        shutil.rmtree(root / STATE / "new", ignore_errors=True)
        yield


def apply(root: Path, changes: Sequence[Change]) -> None:
    """Write and delete what the changes say."""
    staging = root / STATE / "new"
    staging.mkdir(parents=True, exist_ok=True)
    made: set[Path] = set()
    for change in changes:
        path = root / change.path
        if change.kind in WRITES and change.after is not None:
            if path.parent not in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                made.add(path.parent)
            if change.kind == "adopt" and change.before is not None:
                _keep_copy(root, change)
            write_atomic(path, change.after, staging=staging)
        elif change.kind == "delete":
            path.unlink(missing_ok=True)


def _keep_copy(root: Path, change: Change) -> None:
    """Before a file is taken over: it is in git as it lies there, or a copy is left beside it."""
    repo, _, inner = change.path.partition("/")
    if not git.is_committed(root / repo, inner) and change.before is not None:
        path = root / change.path
        write_atomic(_free_name(path), change.before)


def _free_name(path: Path) -> Path:
    """A name beside a file that no file has and no tool takes for a recipe."""
    for number in range(1, 1000):
        candidate = path.with_name(f"{path.name}.orig{'' if number == 1 else number}")
        if not candidate.exists():
            return candidate
    raise Problem(f"too many copies beside {path}", exit=Exit.LACKING)


def tell_git(root: Path, repos: Sequence[WantedRepo], changes: Sequence[Change]) -> None:
    """A repository where there is none, and every file of ours known to it."""
    for repo in repos:
        folder = root / repo.name
        if not git.is_repo(folder):
            git.init(folder)
        touched = {change.path for change in changes if change.kind in (*WRITES, "delete")}
        theirs = {change.path for change in changes if change.kind == "blocked"}
        known = git.known_files(folder)
        prefix = f"{repo.name}/"
        ours = {file.path for file in repo.files if os.path.lexists(root / file.path)} - theirs
        paths = [
            path.removeprefix(prefix)
            for path in sorted(ours | touched)
            if path.startswith(prefix) and (path in touched or path.removeprefix(prefix) not in known)
        ]
        gone = [path for path in paths if not os.path.lexists(folder / path) and path not in known]
        paths = [path for path in paths if path not in gone]
        if paths:
            git.add(folder, paths)


def commit_repos(root: Path, repos: Sequence[WantedRepo], changes: Sequence[Change]) -> list[Commit]:
    """One commit in each repository that has something of ours staged."""
    commits = []
    for repo in repos:
        folder = root / repo.name
        paths = [file.path.removeprefix(f"{repo.name}/") for file in repo.files]
        paths += [c.path.removeprefix(f"{repo.name}/") for c in changes if c.kind == "delete"]
        if git.staged(folder, [path for path in paths if path]):
            message = commit_message(repo, changes)
            commits.append(Commit(repo.name, git.commit(folder, message), message.splitlines()[0]))
    return commits


def commit_message(repo: WantedRepo, changes: Sequence[Change]) -> str:
    """What the commit does, counted, then the recipes it touches."""
    mine = [change for change in changes if change.path.startswith(f"{repo.name}/")]
    counts = {
        word: [change for change in mine if change.kind == kind]
        for word, kind in (
            ("new", "create"),
            ("changed", "update"),
            ("taken over", "adopt"),
            ("gone", "delete"),
        )
    }
    recipes = sum(bool(file.cell) for file in repo.files)
    parts = [f"{len(found)} {word}" for word, found in counts.items() if found]
    head = f"Generate {recipes} recipes" + (f" ({', '.join(parts)} files)" if parts else "")
    touched = [
        Path(change.path).stem for found in counts.values() for change in found if ".nix" in change.path
    ]
    return head + "\n\n" + "\n".join(f"- {name}" for name in touched) + "\n" if touched else head + "\n"
