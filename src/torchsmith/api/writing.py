"""Making a workspace what its torchsmith.toml says: generate, plan and apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.cli.fields import Option
from torchsmith.cli.options import (
    AdoptedPaths,
    ProfileOption,
    WaitOption,
    WorkspaceOption,
    YesOption,
)
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import Exit, Refused
from torchsmith.core.text import counted, some_of
from torchsmith.recipe.header import Owner
from torchsmith.workspace import git
from torchsmith.workspace.change import Adoption, Change, ChangeKind
from torchsmith.workspace.journal import Commit, writing
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.reconcile import Phase, phase_of, reconcile
from torchsmith.workspace.run import carry_out, narrowed_gpus, wanted_of
from torchsmith.workspace.wanted import WantedRepo

ListOnly = Annotated[bool, Option("Write nothing; list the changes.")]


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """Which recipes of a workspace to write, and whose to take over."""

    paths: AdoptedPaths = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    only: Annotated[tuple[str, ...], Option("Write only the recipes that this selector matches.")] = ()
    check: Annotated[bool, Option("Write nothing; exit 1 if a file is out of date.")] = False
    diff: Annotated[bool, Option("Write nothing; print the changes.")] = False
    dry_run: ListOnly = False
    adopt: Annotated[
        bool, Option("Take over recipes that torchsmith does not manage; git or .orig keeps the old text.")
    ] = False
    commit: Annotated[bool, Option("Commit in each repository.")] = False
    git: Annotated[bool, Option("--git/--no-git", "Add the files to git, which Flox needs.")] = True
    yes: YesOption = False
    wait: WaitOption = 0.0


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """Which workspace to compare with its torchsmith.toml."""

    workspace: WorkspaceOption = None
    profile: ProfileOption = None


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """Which plan to carry out, and how it is committed."""

    paths: AdoptedPaths = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    dry_run: ListOnly = False
    adopt: Annotated[
        bool, Option("Also do what the plan skips, to files that torchsmith does not manage.")
    ] = False
    per_file: Annotated[bool, Option("A commit for each file, not each phase.")] = False
    commit: Annotated[bool, Option("--commit/--no-commit", "Commit in each repository.")] = True
    allow_dirty: Annotated[bool, Option("Continue although there are uncommitted changes.")] = False
    yes: YesOption = False
    wait: WaitOption = 0.0


class FileChange(msgspec.Struct, frozen=True):
    """What is done to a file, in which phase, whose it is; `skipped` where that needs --adopt. `old` is the
    file that a replacement removes."""

    kind: ChangeKind
    path: str
    why: str
    phase: Phase
    recipe: bool
    owner: Owner | None
    old: str
    skipped: bool
    diff: str = ""
    warnings: int = 0  # of the audit, where somebody else's recipe stays

    @property
    def pending(self) -> bool:
        return self.kind != "keep" and not self.skipped


class ChangeReport(msgspec.Struct, frozen=True):
    """What becomes of every file of a workspace: what was done where it is `written`, else what would be."""

    FORMAT: ClassVar = 2
    root: Path
    written: bool
    changes: Sequence[FileChange]
    commits: Sequence[Commit] = ()
    narrowed: Sequence[str] = ()  # the GPU of each recipe that names it to nixpkgs now and did not before
    torch_elsewhere: Sequence[str] = ()  # files that set torch, too, and that no plan touches
    copies: Sequence[str] = ()  # that were made of files of others which git does not hold
    committer: bool = True  # git knows who commits

    @property
    def pending(self) -> list[FileChange]:
        """What was carried out, or would be."""
        return [change for change in self.changes if change.pending]

    @property
    def skipped(self) -> list[FileChange]:
        """What needs --adopt, since the file is somebody else's."""
        return [change for change in self.changes if change.skipped]

    @property
    def conflicts(self) -> list[FileChange]:
        """Of those, what needs a person: edits of ours, and what is no text. What others wrote is theirs."""
        return [change for change in self.skipped if change.owner != "foreign"]


def _report(
    root: Path,
    changes: Sequence[Change],
    catalog: Catalog,
    *,
    written: bool = False,
    commits: Sequence[Commit] = (),
    diff: bool = False,
    torch_elsewhere: Sequence[str] = (),
) -> ChangeReport:
    rows = [
        FileChange(
            kind=change.kind,
            path=change.path,
            why=change.why,
            phase=phase_of(change, catalog),
            recipe=change.recipe,
            owner=change.owner,
            old=change.old,
            skipped=change.skipped,
            diff=change.diff() if diff else "",
            warnings=change.warnings,
        )
        for change in changes
    ]
    return ChangeReport(root, written, rows, tuple(commits), narrowed_gpus(changes), torch_elsewhere)


Confirm = Callable[[ChangeReport], bool]  # whether files may be deleted


def _refuse(report: ChangeReport) -> bool:
    return False


def _check_deletions(report: ChangeReport, confirm: Confirm) -> None:
    """A Problem where files would be deleted and nobody agrees."""
    gone = [change.path for change in report.pending if change.kind == "delete"]
    if gone and not confirm(report):
        raise Refused(
            f"{counted(len(gone), 'file')} would be deleted, such as {gone[0]}: nothing was written",
            hint="--yes deletes without asking; --dry-run lists what would be done",
            exit=Exit.BAD_REQUEST,
        )


def generate(
    request: GenerateRequest, reporter: Reporter = SILENT, confirm: Confirm = _refuse
) -> ChangeReport:
    """Write recipes and all files around them. Raises Refused where files would be deleted, unless the
    request says `yes` or `confirm` agrees."""
    dry_run = request.check or request.diff or request.dry_run
    root = open_workspace(request.workspace, request.profile, recover=not dry_run).home

    def changes() -> tuple[list[WantedRepo], list[Change], ChangeReport]:
        opened = open_workspace(request.workspace, request.profile)
        repos = wanted_of(opened, request.only)
        adopt = Adoption.of(request.adopt, request.paths, root)
        # A part of the recipes says nothing about which others are wanted.
        changes = reconcile(opened, repos, adopt=adopt, prune=not request.only)
        return repos, changes, _report(root, changes, opened.catalog, diff=request.diff)

    if dry_run:
        return changes()[-1]
    if request.git:
        git.require_git()
    with writing(root, "generate", request.wait) as writer:
        reporter.note(writer.recovered)
        repos, wanted, report = changes()
        if not request.yes:
            _check_deletions(report, confirm)
        carry_out(writer, repos, wanted, tell_git=request.git, commit=request.commit)
    return msgspec.structs.replace(
        report, written=True, commits=tuple(writer.commits), copies=tuple(writer.copies)
    )


def plan(request: PlanRequest | None = None) -> ChangeReport:
    """What stands between the repositories and torchsmith.toml; the audit judges recipes of others."""
    from torchsmith.edit.plan import plan_workspace
    from torchsmith.workspace.checkout import workspace_folder
    from torchsmith.workspace.derive import torch_elsewhere

    request = request or PlanRequest()
    planned = plan_workspace(request.workspace, request.profile)
    beside = torch_elsewhere(workspace_folder(request.workspace), planned.catalog)
    report = _report(planned.root, planned.changes, planned.catalog, torch_elsewhere=beside)
    waiting = report.pending or report.skipped
    committer = not waiting or all(map(git.has_committer, dict.fromkeys(planned.folders)))
    return msgspec.structs.replace(report, committer=committer)


def apply(request: ApplyRequest, reporter: Reporter = SILENT, confirm: Confirm = _refuse) -> ChangeReport:
    """Make the workspace what its plan says, phase by phase; run again after a stop, it goes on with what is
    left. Raises Refused where files would be deleted, unless the request says `yes` or `confirm` agrees."""
    from torchsmith.edit import plan as plans

    def report() -> tuple[plans.WorkspacePlan, ChangeReport]:
        workspace_plan = plans.plan_workspace(
            request.workspace, request.profile, adopt=request.adopt, paths=tuple(request.paths)
        )
        return workspace_plan, _report(workspace_plan.root, workspace_plan.changes, workspace_plan.catalog)

    if request.dry_run:
        return report()[1]
    git.require_git()
    root = open_workspace(request.workspace, request.profile, recover=True).home
    with writing(root, "apply", request.wait) as writer:
        reporter.note(writer.recovered)
        workspace_plan, planned = report()
        if not request.allow_dirty:
            plans.refuse_dirty(workspace_plan)
        if not request.yes:
            _check_deletions(planned, confirm)
        pages = [
            change.path for change in workspace_plan.changes if change.kind == "create" and not change.recipe
        ]
        if pages:
            reporter.note(f"adds {counted(len(pages), 'file')} besides recipes: {some_of(pages, 9)}")
        plans.carry_out(workspace_plan, writer, commit=request.commit, per_file=request.per_file)
    return msgspec.structs.replace(
        planned, written=True, commits=tuple(writer.commits), copies=tuple(writer.copies)
    )
