"""Carrying a plan out: phase by phase, each committed, nothing of anybody else touched unless told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from torchsmith.edge.problem import Refused
from torchsmith.plan.plan import PHASES, WorkspacePlan, plan_workspace
from torchsmith.workspace import git
from torchsmith.workspace.change import KINDS, Change, ChangeKind
from torchsmith.workspace.checkout import PKGS, SHARED
from torchsmith.workspace.journal import Commit, GitStep, Writer, writing
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.reconcile import copies

OURS = (f"{PKGS}/", f"{SHARED}/", "docs/")  # where a plan deletes files


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What was asked for."""

    workspace: Path | None = None
    profile: str | None = None
    adopt: bool = False
    paths: tuple[Path, ...] = ()  # to adopt; none: all but pages
    dirty: bool = False  # go on although something is not committed
    per_file: bool = False
    commit: bool = True
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done, what was left to its owner, and the commits."""

    plan: WorkspacePlan
    done: tuple[Change, ...]
    left: tuple[Change, ...]
    commits: tuple[Commit, ...]
    recovered: str = ""


def apply_plan(request: ApplyRequest) -> Applied:
    """Make the workspace what its plan says. Run again after a stop, it goes on with what is still to do."""
    git.require_git()
    root = open_workspace(request.workspace, request.profile).home
    with writing(root, "apply", request.wait_seconds) as writer:
        plan = plan_workspace(request.workspace, request.profile, adopt=request.adopt, paths=request.paths)
        if not request.dirty:
            refuse_dirty(plan)
        chosen = [one for one in plan.pending if one.done]
        for repo in plan.repos if request.commit and chosen else ():
            git.require_committer(root / repo.name if (root / repo.name).is_dir() else root)
        for repo in plan.repos:
            (root / repo.name).mkdir(exist_ok=True)
            if not git.is_kept(root / repo.name):
                git.init(root / repo.name)
            mine = [one for one in chosen if one.path.startswith(f"{repo.name}/")]
            extra = list(_uncommitted(plan, repo.name)) if request.commit else []
            for name, changes in _batches(plan, [*mine, *extra], per_file=request.per_file):
                _write(writer, repo.name, name, changes, request)
    left = tuple(one for one in plan.pending if one.left)
    return Applied(plan, tuple(chosen), left, tuple(writer.commits), writer.recovered)


def _write(writer: Writer, repo: str, name: str, changes: Sequence[Change], request: ApplyRequest) -> None:
    """One batch, with its commit."""
    paths = [path.removeprefix(f"{repo}/") for change in changes for path in change.files]
    message = _message(name, changes, per_file=request.per_file)
    steps = [GitStep(repo=repo, add=paths, commit=paths, message=message)] if request.commit else []
    writer.write([*copies(writer.root, changes), *changes], steps)


def refuse_dirty(plan: WorkspacePlan) -> None:
    """A Problem where a repository has changes that nobody committed; what is as wanted does not count."""
    wanted = {file.path: file.text for repo in plan.repos for file in repo.files}
    for repo in plan.repos:
        folder = plan.root / repo.name
        for path in git.uncommitted(folder) if folder.is_dir() and git.is_kept(folder) else ():
            full = f"{repo.name}/{path}"
            mine = full in wanted and _read(plan.root / full) == wanted[full]
            if not mine and (full in wanted or (plan.root / full).exists()):
                raise Refused(
                    f"{full} is not committed",
                    hint="commit or stash it first, or pass --allow-dirty",
                )


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _uncommitted(plan: WorkspacePlan, repo: str) -> Iterator[Change]:
    """Files that are as wanted, or gone as wanted, and that no commit holds: each belongs to its phase."""
    wanted = {file.path: file for one in plan.repos if one.name == repo for file in one.files}
    for inner, letters in git.uncommitted(plan.root / repo).items():
        path = f"{repo}/{inner}"
        file = wanted.get(path)
        text = _read(plan.root / path)
        if file is not None and text == file.text:
            new: ChangeKind = "create" if letters in ("??", "A ", "AM") else "rewrite"
            yield Change(new, path, "not committed yet", text, text, "ours", recipe=file.is_recipe)
        elif file is None and not (plan.root / path).exists() and inner.startswith(OURS):
            yield Change("delete", path, "gone, and not committed yet", owner="ours")


def _batches(
    plan: WorkspacePlan, changes: Sequence[Change], *, per_file: bool
) -> Iterator[tuple[str, list[Change]]]:
    """What goes into one commit: a phase, or a file."""
    if per_file:
        yield from ((Path(one.path).name, [one]) for one in changes)
        return
    ordered = sorted(changes, key=lambda one: PHASES.index(plan.phase(one)))
    for phase, group in groupby(ordered, key=plan.phase):
        yield phase, list(group)


def _message(name: str, changes: Sequence[Change], *, per_file: bool) -> str:
    if per_file:
        return f"{changes[0].kind.capitalize()} {name}\n\n{changes[0].why}\n"
    counts = {kind: sum(one.kind == kind for one in changes) for kind in KINDS}
    words = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
    told = [one for one in changes if one.kind != "create"]
    body = "\n".join(f"- {one.kind} {Path(one.path).name}: {one.why}" for one in told)
    files = "file" if len(changes) == 1 else "files"
    return f"{name[0].upper()}{name[1:]}: {words} {files}\n" + (f"\n{body}\n" if body else "")
