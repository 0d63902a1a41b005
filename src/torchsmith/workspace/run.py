"""What a workspace should hold, and carrying changes of it out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torchsmith.core.problem import Empty
from torchsmith.core.text import counted
from torchsmith.matrix import package_name
from torchsmith.workspace import git
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import GitStep, Writer
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import copies
from torchsmith.workspace.wanted import WantedRepo, wanted_repos

CAPABILITIES = re.compile(r"^ +cudaCapabilities = \[ (\S+) \]; # MAGMA", re.MULTILINE)
KIND_TITLES = {"create": "new", "rewrite": "changed", "replace": "replaced", "delete": "gone"}


def narrowed_gpus(changes: Iterable[Change]) -> list[str]:
    """The GPU of each recipe of ours that names it to nixpkgs now and did not before."""
    return [
        named[1]
        for change in changes
        if change.recipe and change.kind == "rewrite" and not CAPABILITIES.search(change.before or "")
        if (named := CAPABILITIES.search(change.after or ""))
    ]


def wanted_of(workspace: Workspace, only: tuple[str, ...] = ()) -> list[WantedRepo]:
    """What a workspace should hold, or of that some recipes; a Problem where it leaves every cell out."""
    repos = wanted_repos(workspace)
    if not any(file.cell for repo in repos for file in repo.files) and not workspace.settings.cudatoolkit:
        hint = "torchsmith list --left-out says why each is"
        raise Empty(f"{workspace.source.name} leaves every cell out: there is nothing to write", hint=hint)
    if not only:
        return repos
    chosen = {cell.name for cell in workspace.select(only).cells}
    parts = [replace(repo, files=tuple(file for file in repo.files if file.cell in chosen)) for repo in repos]
    return [repo for repo in parts if repo.files]


def carry_out(
    writer: Writer,
    repos: Sequence[WantedRepo],
    changes: Sequence[Change],
    *,
    edits: Sequence[Change] = (),
    tell_git: bool = True,
    commit: bool = False,
) -> None:
    """Write changes, and edits that they follow from, and git add them; copies are kept of files of
    others that are taken over and that git does not hold."""
    steps = list(_git_steps(writer.root, repos, changes, commit=commit)) if tell_git else []
    writer.write([*edits, *copies(writer.root, changes), *changes], steps)


def _git_steps(
    root: Path, repos: Iterable[WantedRepo], changes: Sequence[Change], *, commit: bool
) -> Iterator[GitStep]:
    """A repository where there is none, and every file of ours known to it."""
    touched = {path for change in changes for path in change.files}
    theirs = {change.path for change in changes if change.skipped}
    for repo in repos:
        folder, prefix = root / repo.name, f"{repo.name}/"
        known = git.known_files(folder) if folder.is_dir() and git.is_kept(folder) else set()
        inner = {path.removeprefix(prefix) for path in touched if path.startswith(prefix)}
        ours = {file.path.removeprefix(prefix) for file in repo.files if file.path not in theirs}
        add = sorted(inner | (ours - known))
        if add or commit:
            message = commit_message(repo, changes) if commit else ""
            yield GitStep(repo=repo.name, add=add, commit=sorted(ours | inner), message=message)


def commit_message(repo: WantedRepo, changes: Sequence[Change]) -> str:
    """What the commit does, counted, then the recipes it touches."""
    mine = [change for change in changes if change.pending and change.path.startswith(f"{repo.name}/")]
    counts = Counter[str]()
    for change in mine:
        adopted = change.kind == "rewrite" and change.owner != "ours"
        counts["taken over" if adopted else KIND_TITLES[change.kind]] += 1
    parts = [f"{count} {title}" for title, count in counts.items()]
    recipes = sum(file.is_recipe for file in repo.files)
    head = f"Generate {counted(recipes, 'recipe')}" + (f" ({', '.join(parts)} files)" if parts else "")
    touched = [f"- {package_name(change.path)}\n" for change in mine if change.recipe]
    return f"{head}\n\n{''.join(touched)}" if touched else f"{head}\n"
