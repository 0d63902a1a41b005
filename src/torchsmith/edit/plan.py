"""Desired against actual, with the audit as judge of what others wrote: each file kept, created, rewritten,
replaced or deleted, and why. Carried out phase by phase, each committed; files of others are touched only
with --adopt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.auditing.context import Context
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import check_file
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Refused
from torchsmith.core.text import counted, grouped
from torchsmith.workspace import git
from torchsmith.workspace.change import COPY, KINDS, Adoption, Change, ChangeKind
from torchsmith.workspace.checkout import PKGS, RecipeFile
from torchsmith.workspace.journal import GitStep, Writer
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.reconcile import PHASES, Judge, Judged, copies, phase_of, reconcile
from torchsmith.workspace.run import wanted_of
from torchsmith.workspace.wanted import WantedRepo

MAX_REASONS = 3  # of a broken recipe, in its message
OURS = (f"{PKGS}/", "docs/")  # where a plan deletes files


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """All changes of a workspace, in the order in which they are carried out."""

    root: Path
    catalog: Catalog
    repos: tuple[WantedRepo, ...]
    changes: tuple[Change, ...]

    @property
    def folders(self) -> list[Path]:
        """Where git commits: each repository, or the workspace where it is not there yet."""
        places = (self.root / repo.name for repo in self.repos)
        return [place if place.is_dir() else self.root for place in places]


def plan_workspace(
    workspace: Path | None, profile: str | None = None, *, adopt: bool = False, paths: tuple[Path, ...] = ()
) -> WorkspacePlan:
    """The plan of a workspace; a Problem where there is none."""
    opened = open_workspace(workspace, profile)
    root = opened.home
    repos = wanted_of(opened)
    adoption = Adoption.of(adopt, paths, root)
    changes = reconcile(opened, repos, adopt=adoption, judge=auditor(opened))
    changes.sort(key=lambda change: PHASES.index(phase_of(change, opened.catalog)))
    return WorkspacePlan(root, opened.catalog, tuple(repos), tuple(changes))


def auditor(workspace: Workspace) -> Judge:
    """What audit says of a recipe: the first few of its errors, and how many warnings it has."""
    context = Context(
        workspace.catalog,
        RuleSelection().also(workspace.settings.audit),
        {cell.name: cell.line for cell in workspace.matrix.cells},
    )

    def judge(recipe: RecipeFile) -> Judged:
        label = recipe.path.relative_to(workspace.home).as_posix()
        findings = check_file(recipe.path, label, True, context).findings
        kept, _ = context.choice.keep(list(findings))
        errors = (finding.message for finding in kept if finding.severity is Severity.ERROR)
        messages = list(dict.fromkeys(errors))
        more = f", and {len(messages) - MAX_REASONS} more" if len(messages) > MAX_REASONS else ""
        warnings = sum(finding.severity is Severity.WARNING for finding in kept)
        parsed = not any(finding.rule == "TS001" for finding in findings)
        return Judged("; ".join(messages[:MAX_REASONS]) + more, warnings, parsed)

    return judge


def carry_out(plan: WorkspacePlan, writer: Writer, *, commit: bool, per_file: bool) -> None:
    """Write what a plan changes, a commit for each phase or file. A Problem where nobody could commit."""
    root = plan.root
    pending = [change for change in plan.changes if change.pending]
    for folder in plan.folders if commit and pending else ():
        git.require_committer(folder)
    for repo in plan.repos:
        (root / repo.name).mkdir(exist_ok=True)
        if not git.is_kept(root / repo.name):
            git.init(root / repo.name)
        mine = [change for change in pending if change.path.startswith(f"{repo.name}/")]
        extra = list(_uncommitted(plan, repo.name)) if commit else []
        for name, changes in _batches(plan, [*mine, *extra], per_file=per_file):
            paths = [path.removeprefix(f"{repo.name}/") for change in changes for path in change.files]
            message = _message(name, changes, per_file=per_file)
            steps = [GitStep(repo=repo.name, add=paths, commit=paths, message=message)] if commit else []
            writer.write([*copies(root, changes), *changes], steps)


def refuse_dirty(plan: WorkspacePlan) -> None:
    """A Problem where a repository has changes that nobody committed; what is as wanted does not count, nor
    do the copies that torchsmith made of files it changed."""
    wanted = {file.path: file.text for repo in plan.repos for file in repo.files}
    for repo in plan.repos:
        folder = plan.root / repo.name
        for path in git.uncommitted(folder) if folder.is_dir() and git.is_kept(folder) else ():
            full = f"{repo.name}/{path}"
            mine = full in wanted and _read(plan.root / full) == wanted[full]
            if not mine and not COPY.search(path) and (full in wanted or (plan.root / full).exists()):
                hint = "commit or stash it first, or pass --allow-dirty"
                raise Refused(f"{full} is not committed", hint=hint)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _uncommitted(plan: WorkspacePlan, repo: str) -> Iterator[Change]:
    """Files that are as wanted, or gone as wanted, and that no commit holds: each belongs to its phase."""
    wanted = {file.path: file for planned in plan.repos if planned.name == repo for file in planned.files}
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
        yield from ((Path(change.path).name, [change]) for change in changes)
        return
    by_phase = grouped((phase_of(change, plan.catalog), change) for change in changes)
    yield from ((phase, by_phase[phase]) for phase in PHASES if phase in by_phase)


def _message(name: str, changes: Sequence[Change], *, per_file: bool) -> str:
    if per_file:
        return f"{changes[0].kind.capitalize()} {name}\n\n{changes[0].why}\n"
    counts = {kind: sum(change.kind == kind for change in changes) for kind in KINDS}
    actions = ", ".join(f"{kind} {counted(count, 'file')}" for kind, count in counts.items() if count)
    body = [f"- {change.kind} {Path(change.path).name}: {change.why}" for change in changes]
    return f"{name[0].upper()}{name[1:]}: {actions}\n\n" + "\n".join(body) + "\n"
