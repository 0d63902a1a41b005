"""Write changes of a workspace: add them to git, or commit them phase by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torchsmith.core.files import text_or_none, write_atomic
from torchsmith.core.git import git as run_git
from torchsmith.core.problem import Empty, Refused
from torchsmith.core.state import make_state_folder, state_folder
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.workspace import git
from torchsmith.workspace.change import COPY, KINDS, PHASES, Change, ChangeKind, Phase
from torchsmith.workspace.checkout import PKGS
from torchsmith.workspace.journal import GitStep, Writer
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import copies, phase_of
from torchsmith.workspace.wanted import WantedRepo, wanted_repos, wrote

FOR: dict[Phase, str] = {
    "GPU on x86": " for GPUs on x86",
    "GPU on ARM": " for GPUs on ARM",
    "macOS": " for macOS",
    "CPU only": " for CPUs",
}
REPOSITORIES = "repositories"  # in the state folder: those that were written, by name


def wanted_of(workspace: Workspace) -> list[WantedRepo]:
    """What a workspace should contain: its repositories, and without files those that it had and no longer
    asks for. Raises Empty if every cell is left out."""
    repos = wanted_repos(workspace)
    if not any(file.cell for repo in repos for file in repo.files) and not workspace.settings.cudatoolkit:
        hint = "torchsmith list --left-out says why each is"
        raise Empty(f"{workspace.source.name} leaves every build out: there is nothing to write", hint=hint)
    names = {repo.name for repo in repos}
    return repos + [WantedRepo(name, ()) for name in _written(workspace.home) if name not in names]


def _written(root: Path) -> list[str]:
    """The repositories that were written here, and are still there."""
    names = (text_or_none(state_folder(root) / REPOSITORIES) or "").splitlines()
    return [name for name in names if (root / name).is_dir() and not (root / name).is_symlink()]


def _record_written(root: Path, repos: Iterable[WantedRepo]) -> None:
    """Record the repositories of a workspace, so that it is known which ones it no longer asks for."""
    names = dict.fromkeys([*_written(root), *(repo.name for repo in repos if repo.files)])
    write_atomic(make_state_folder(root) / REPOSITORIES, "\n".join(names))


def forget_written(root: Path) -> None:
    """Forget which repositories were written here: a new torchsmith.toml asks for none of them to go."""
    (state_folder(root) / REPOSITORIES).unlink(missing_ok=True)


def write_changes(
    writer: Writer,
    repos: Sequence[WantedRepo],
    changes: Sequence[Change],
    *,
    add: bool = True,
) -> None:
    """Write changes and add them to git. Files that are taken over and not committed are copied first."""
    steps = list(_add_steps(writer.root, repos, changes)) if add else []
    writer.write([*copies(writer.root, changes), *changes], steps)
    _record_written(writer.root, repos)


def commit_changes(
    writer: Writer,
    workspace: Workspace,
    repos: Sequence[WantedRepo],
    changes: Sequence[Change],
) -> None:
    """Write changes with one commit for each phase, with the wanted files that are not committed."""
    root = writer.root
    pending = [change for change in changes if change.pending]
    for folder in (root / repo.name for repo in repos if pending):
        git.require_committer(folder if folder.is_dir() else root)
        git.require_branch(folder if folder.is_dir() else root)
    for repo in repos:
        mine = [change for change in pending if change.path.startswith(f"{repo.name}/")]
        mine += uncommitted(workspace, repo)
        by_phase = grouped((change.phase, change) for change in mine)
        for batch in (by_phase[phase] for phase in PHASES if phase in by_phase):
            paths = [path.removeprefix(f"{repo.name}/") for change in batch for path in change.files]
            step = GitStep(repo=repo.name, add=paths, message=_message(repo.name, batch))
            writer.write([*copies(root, batch), *batch], [step])
    _record_written(root, repos)


def require_clean(root: Path, repos: Sequence[WantedRepo], changes: Sequence[Change]) -> None:
    """Raise Refused if a repository has changes that are not committed, such as a deleted file. Files that
    are as wanted do not count, nor do deletions and copies that torchsmith made, nor what is in a repository
    that is no longer wanted and does not change."""
    wanted = {file.path: file.text for repo in repos for file in repo.files}
    touched = {change.path.partition("/")[0] for change in changes if change.pending}
    for repo in repos:
        checked = repo.files or repo.name in touched
        for path, letters in (_status(root / repo.name) if checked else {}).items():
            full = f"{repo.name}/{path}"
            mine = full in wanted and text_or_none(root / full) == wanted[full]
            mine = mine or (full not in wanted and _removed(root / repo.name, path, letters) is not None)
            if not mine and not COPY.search(path):
                what = "" if (root / full).exists() else "the deletion of "
                stash = "git stash --include-untracked" if letters == "??" else "git stash"
                hint = f"commit it, put it aside with {stash}, or pass --allow-dirty"
                raise Refused(f"{what}{full} is not committed", hint=hint)


def _add_steps(root: Path, repos: Iterable[WantedRepo], changes: Sequence[Change]) -> Iterator[GitStep]:
    """Add changed files, and generated ones that git does not know."""
    touched = {path for change in changes for path in change.files}
    generated = {change.path for change in changes if change.generated}
    for repo in repos:
        folder, prefix = root / repo.name, f"{repo.name}/"
        known = git.known_files(folder) if folder.is_dir() and git.is_kept(folder) else set()
        inner = {path.removeprefix(prefix) for path in touched if path.startswith(prefix)}
        ours = {path.removeprefix(prefix) for path in generated if path.startswith(prefix)}
        if add := sorted(inner | {path for path in ours - known if (folder / path).exists()}):
            yield GitStep(repo=repo.name, add=add)


def not_taken_by_git(root: Path, repos: Iterable[WantedRepo], changes: Sequence[Change]) -> Iterator[str]:
    """The wanted files that are there, or would be, and that git ignores."""
    there = {change.path for change in changes if not change.skipped}
    for repo in repos:
        folder, prefix = root / repo.name, f"{repo.name}/"
        inner = [file.path.removeprefix(prefix) for file in repo.files if file.path in there]
        if folder.is_dir() and git.is_kept(folder):
            yield from (prefix + path for path in git.ignored(folder, inner))


def uncommitted(workspace: Workspace, repo: WantedRepo) -> Iterator[Change]:
    """The files of a repository that are as wanted, also gone, and not committed."""
    root, wanted = workspace.home, {file.path: file for file in repo.files}
    for inner, letters in _status(root / repo.name).items():
        path = f"{repo.name}/{inner}"
        file, text = wanted.get(path), text_or_none(root / path)
        if file is not None and text == file.text:
            kind: ChangeKind = "create" if letters in ("??", "A ", "AM") else "rewrite"
            change = Change(kind, path, "not committed yet", text, text, "ours", recipe=file.is_recipe)
            yield replace(change, phase=phase_of(change, workspace.catalog))
        elif file is None and (text := _removed(root / repo.name, inner, letters)) is not None:
            is_recipe = inner.startswith(f"{PKGS}/") and inner.endswith(".nix")
            change = Change("delete", path, "not committed yet", text, None, "ours", recipe=is_recipe)
            yield replace(change, phase=phase_of(change, workspace.catalog))


def _removed(folder: Path, inner: str, letters: str) -> str | None:
    """The text of a file that torchsmith wrote and deleted, and that the last commit still has."""
    text = run_git(folder, "cat-file", "blob", f"HEAD:./{inner}").stdout if letters == "D " else ""
    return text if text and wrote(folder.name, inner, text) else None


def _status(folder: Path) -> dict[str, str]:
    """What git status says of uncommitted files; nothing without a repository."""
    return git.uncommitted(folder) if folder.is_dir() and git.is_kept(folder) else {}


def _message(repo: str, changes: Sequence[Change]) -> str:
    """`build-pytorch: create 36 recipes for GPUs on x86 (torchsmith)`, and each file with its reason."""
    names = [Path(change.path).name for change in changes]
    counts = Counter(change.kind for change in changes)
    thing = "recipe" if all(change.recipe for change in changes) else "file"
    actions = ", ".join(f"{kind} {counted(counts[kind], thing)}" for kind in KINDS if counts[kind])
    what = FOR.get(changes[0].phase) or f": {some_of(names, 2)}"
    body = [f"- {change.kind} {name}: {change.reason}" for change, name in zip(changes, names, strict=True)]
    return f"{repo}: {actions}{what} (torchsmith)\n\n" + "\n".join(body) + "\n"
