"""Carrying a plan out: phase by phase, each committed, nothing of anybody else touched unless told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from torchsmith.edge.problem import Exit, Problem
from torchsmith.plan.plan import Action, Plan, plan_workspace
from torchsmith.workspace import git
from torchsmith.workspace.compare import Change
from torchsmith.workspace.compare import Kind as ChangeKind
from torchsmith.workspace.generate import Commit, apply, one_at_a_time

Tell = Callable[[Action], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    workspace: Path | None = None
    profile: str | None = None
    adopt: bool = False
    dirty: bool = False  # go on although something is not committed
    per_file: bool = False
    commit: bool = True
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done, what was left to its owner, and the commits."""

    plan: Plan
    done: tuple[Action, ...]
    left: tuple[Action, ...]
    commits: tuple[Commit, ...]


def apply_plan(request: Request, tell: Tell = lambda _: None) -> Applied:
    """Make the workspace what its plan says. Run again after a stop, it goes on with what is still to do."""
    git.require_git()
    root = plan_workspace(request.workspace, request.profile).root
    with one_at_a_time(root, request.wait_seconds):
        plan = plan_workspace(request.workspace, request.profile)
        chosen, left = _allowed(plan.pending, adopt=request.adopt)
        if not request.dirty:
            refuse_dirty(plan)
        commits: list[Commit] = []
        for repo in _repos(plan):
            if not git.is_repo(root / repo):
                (root / repo).mkdir(parents=True, exist_ok=True)
                git.init(root / repo)
            for name, actions in _batches(chosen, repo, per_file=request.per_file):
                apply(root, [change for action in actions for change in _changes(root, action)])
                for action in actions:
                    tell(action)
                commits += _commit(root, repo, name, actions, request) if request.commit else ()
        commits += _leftovers(plan, root) if request.commit else ()
    return Applied(plan, tuple(chosen), tuple(left), tuple(commits))


def _allowed(actions: Sequence[Action], *, adopt: bool) -> tuple[list[Action], list[Action]]:
    """What may be done, and what belongs to somebody else."""
    chosen = [one for one in actions if adopt or one.ours]
    return chosen, [one for one in actions if not (adopt or one.ours)]


def _repos(plan: Plan) -> list[str]:
    return [repo.name for repo in plan.repos]


def refuse_dirty(plan: Plan) -> None:
    """A Problem where a repository has changes that nobody committed; those of a stopped run do not count."""
    wanted = {file.path: file.text for repo in plan.repos for file in repo.files}
    for repo in _repos(plan):
        folder = plan.root / repo
        for path in git.uncommitted(folder) if git.is_repo(folder) else ():
            full = f"{repo}/{path}"
            mine = full in wanted and _read(plan.root / full) == wanted[full]
            if not mine and (full in wanted or (plan.root / full).exists()):
                raise Problem(
                    f"{full} is not committed",
                    hint="commit or stash it first, or pass --allow-dirty",
                    exit=Exit.NOT_RIGHT,
                )


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _batches(actions: Sequence[Action], repo: str, *, per_file: bool) -> Iterator[tuple[str, list[Action]]]:
    """What goes into one commit: a phase, or a file."""
    mine = [one for one in actions if one.path.startswith(f"{repo}/")]
    if per_file:
        yield from ((Path(one.path).name, [one]) for one in mine)
        return
    for phase, group in groupby(mine, key=lambda one: one.phase):
        yield phase, list(group)


def _change(action: Action, before: str | None) -> ChangeKind:
    """What `generate` calls it: a file of somebody else is adopted, which keeps a copy where git has none."""
    if action.owner == "ours":
        return "update"
    return "create" if before is None else "adopt"


def _changes(root: Path, action: Action) -> Iterator[Change]:
    before = _read(root / action.path)
    if action.kind in ("create", "rewrite", "replace"):
        yield Change(_change(action, before), action.path, action.why, before, action.text)
    if action.kind == "delete":
        yield Change("delete", action.path, action.why, before)
    if action.old:
        yield Change("delete", action.old, action.why, _read(root / action.old))


def _commit(
    root: Path, repo: str, name: str, actions: Sequence[Action], request: Request
) -> Iterator[Commit]:
    paths = [path for action in actions for path in (action.path, action.old) if path]
    inner = [path.removeprefix(f"{repo}/") for path in paths]
    known = git.known_files(root / repo)
    there = [path for path in inner if (root / repo / path).exists() or path in known]
    if not there:
        return
    git.add(root / repo, there)
    if not git.staged(root / repo, there):
        return
    message = _message(name, actions, per_file=request.per_file)
    yield Commit(repo, git.commit(root / repo, message, there), message.splitlines()[0])


def _message(name: str, actions: Sequence[Action], *, per_file: bool) -> str:
    if per_file:
        return f"{actions[0].kind.capitalize()} {name}\n\n{actions[0].why}\n"
    counts = {
        kind: sum(one.kind == kind for one in actions) for kind in ("create", "rewrite", "replace", "delete")
    }
    words = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
    body = "\n".join(
        f"- {one.kind} {Path(one.path).name}: {one.why}" for one in actions if one.kind != "create"
    )
    return f"{name[0].upper()}{name[1:]}: {words} files\n" + (f"\n{body}\n" if body else "")


def _leftovers(plan: Plan, root: Path) -> Iterator[Commit]:
    """Files of ours that a stopped run wrote and did not commit."""
    for repo in plan.repos:
        folder = root / repo.name
        ours = {file.path.removeprefix(f"{repo.name}/"): file.text for file in repo.files}
        paths = [
            path for path in git.uncommitted(folder) if path in ours and _read(folder / path) == ours[path]
        ]
        gone = [path for path in git.uncommitted(folder) if not (folder / path).exists() and path not in ours]
        if paths or gone:
            git.add(folder, [*paths, *gone])
            message = "Finish what a stopped run began\n"
            yield Commit(repo.name, git.commit(folder, message, [*paths, *gone]), message.strip())
