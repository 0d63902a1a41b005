"""`torchsmith plan`: what would change in a workspace."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TextIO

import msgspec

from torchsmith.cli.console import (
    Printer,
    command,
    exit_if,
    next_step,
    paint,
    print_json,
    write,
    write_stderr,
)
from torchsmith.cli.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.request import Option, Request
from torchsmith.core.text import counted, grouped, listed, printable, some_of
from torchsmith.matrix import package_name
from torchsmith.workspace.change import ALL, BY_NAME, PHASES, Adoption, Change, ReasonCode
from torchsmith.workspace.journal import Commit, StoppedRun, stopped_run

if TYPE_CHECKING:
    from torchsmith.edit.plan import WorkspacePlan

EXAMPLE = "torchsmith init builds && torchsmith plan -w builds"
STYLES = {
    "create": "green",
    "rewrite": "cyan",
    "replace": "magenta",
    "delete": "red",
    "skip": "yellow",
    "keep": "dim",
}
COUNTED = {"create": "create", "rewrite": "change", "replace": "change", "delete": "delete", "keep": "keep"}
BY_PATH: tuple[ReasonCode, ...] = ("not-text", "not-wanted")  # --adopt all does not take these over
DONE = {"create": "created", "change": "changed", "delete": "deleted", "keep": "kept"}


@dataclass(frozen=True, kw_only=True)
class PlanRequest(Request):
    """Which workspace to compare with its torchsmith.toml, and which files to take over."""

    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    adopt: Annotated[
        tuple[str, ...],
        Option(
            "Take over files that torchsmith does not manage: a file, the recipes of a folder, or all that"
            " the plan skips. Git or .orig keeps the old text.",
            metavar="PATH|all",
        ),
    ] = ()

    @property
    def which(self) -> list[str]:
        """The options that say which files, to give again."""
        profile = ["--profile", self.profile] if self.profile else []
        return [*profile, *(word for value in self.adopt for word in ("--adopt", value))]

    @property
    def words(self) -> list[str]:
        """The options to give again to write the plan."""
        return self.which

    @property
    def adopts_paths(self) -> bool:
        """Whether some files are taken over, and not all."""
        return bool(self.adopt) and ALL not in self.adopt

    def planned(self) -> tuple[WorkspacePlan, ChangeReport]:
        """The plan of the workspace, and the report of it."""
        from torchsmith.edit.plan import plan_workspace
        from torchsmith.workspace.write import not_taken_by_git, uncommitted

        plan = plan_workspace(self.workspace, self.profile, adopt=self.adopt)
        home = plan.workspace.home
        return plan, ChangeReport(
            home,
            False,
            plan.changes,
            ignored=tuple(not_taken_by_git(home, plan.repos, plan.changes)),
            unhashed=plan.unhashed_pins,
            uncommitted=[file.path for repo in plan.repos for file in uncommitted(plan.workspace, repo)],
            stopped=stopped_run(home),
            unusable=plan.workspace.matrix.unusable,
            split_torch=plan.split_torch,
            renamed=plan.renamed,
            not_adopted=_not_adopted(Adoption.of(self.adopt, home), plan.changes),
        )


@dataclass(frozen=True, kw_only=True)
class ChangeView(Request):
    """How changes are shown."""

    diff: Annotated[bool, Option("Print the changes as a diff.")] = False
    check: Annotated[bool, Option("Exit 1 if a file should change.")] = False
    verbose: Annotated[bool, Option("--verbose", "-v", "List every file and every reason.")] = False
    json: JsonOption = False


class ChangeReport(msgspec.Struct, frozen=True):
    """The changes of a workspace: those that were made if it is `written`, else those that would be."""

    FORMAT: ClassVar = 3
    root: Path
    written: bool
    changes: Sequence[Change]
    commits: Sequence[Commit] = ()
    unhashed: Mapping[str, str] = {}  # pins without a hash, of recipes to write; each with a line that has it
    copies: Sequence[str] = ()  # of files that were taken over and not committed
    new_repos: Sequence[str] = ()  # folders that became git repositories
    ignored: Sequence[str] = ()  # wanted files that git ignores
    uncommitted: Sequence[str] = ()  # files that are as wanted, which --commit commits too
    stopped: StoppedRun | None = None  # what apply finishes first
    unusable: int = 0  # builds that no machine can use
    split_torch: Mapping[str, Sequence[str]] = {}  # torch recipes not generated, and generated companions
    renamed: Mapping[str, tuple[str, str]] = {}  # recipes taken over, each with its old and new pname
    not_adopted: Mapping[str, str] = {}  # what --adopt names and is left as it is, each with the reason

    @property
    def pending(self) -> list[Change]:
        """The changes that were made, or would be."""
        return [change for change in self.changes if change.pending]

    @property
    def deleted(self) -> list[str]:
        """The files that would be deleted, also by finishing a stopped run."""
        stopped = self.stopped.files if self.stopped else {}
        left = [path for path, kind in stopped.items() if kind == "delete"]
        return left + [change.path for change in self.pending if change.kind == "delete"]

    @property
    def skipped(self) -> list[Change]:
        """The changes that need --adopt."""
        return [change for change in self.changes if change.skipped]


def plan(request: PlanRequest = PlanRequest()) -> ChangeReport:
    """What would change in a workspace. Recipes that torchsmith does not manage are checked by the audit."""
    return request.planned()[1]


def run(*, request: PlanRequest, view: ChangeView) -> None:
    """Show which files would be kept, created, rewritten, replaced or deleted, and why.

    Recipes that torchsmith does not manage are checked as [bold]audit[/bold] checks them: they stay if
    torchsmith.toml asks for them and they have no error. Nothing is written; [bold]apply[/bold] writes. With
    [bold]--check[/bold] the exit code is 1 when a file should change, or git ignores one. What a stopped
    [bold]apply[/bold] has left is shown first.
    """
    show_plan(plan(request), request, view)


def show_plan(report: ChangeReport, request: PlanRequest, view: ChangeView) -> None:
    """Print a plan, and what to do after it; with --check, exit 1 if a file should change."""
    if print_report(report, view, request):
        next_step("plan", *request.which, "--verbose", workspace=request.workspace, why="every file")
    if report.unhashed:
        pin, line = next(iter(report.unhashed.items()))
        records = command("line", "update", line, "--rev", pin, workspace=request.workspace)
        pins = listed(report.unhashed)
        write_stderr(
            f"no hash of nixpkgs {pins} is recorded, downloads are not checked: {records} records it"
        )
    if report.pending or report.stopped:
        next_step("apply", *request.words, workspace=request.workspace)
    else:
        suggest_adoption(report, request)
    if view.check and report.skipped:
        write_stderr(f"skipped: --adopt {_effect(report.skipped)}")
    exit_if(view.check and (report.pending or report.skipped or report.ignored or report.stopped))


def _not_adopted(adopt: Adoption, changes: Sequence[Change]) -> dict[str, str]:
    """What is named to be taken over and is left as it is, each with the reason."""
    left: dict[str, str] = {}
    for path in adopt.paths:
        one = replace(adopt, paths=(path,))
        named = [change for change in changes if one.names(change.old or change.path)]
        kept = [change for change in named if change.kind == "keep" and change.code != "up-to-date"]
        left |= {change.path: change.why for change in kept}
        if not named:
            left[path] = "torchsmith.toml asks for nothing there: delete it yourself if it is of no use"
    return left


def _by_path(change: Change) -> bool:
    """Whether a skipped file is taken over by its own path alone, if at all."""
    return change.code in BY_PATH or change.path.endswith(BY_NAME)


def suggest_adoption(report: ChangeReport, request: PlanRequest) -> None:
    """Suggest to fix what was skipped if the audit can, then to take it over."""
    if fixable := sum(change.fixable for change in report.skipped):
        why = f"fixes {counted(fixable, 'recipe')}"
        next_step("audit", str(request.workspace or "."), "--fix", why=why)
    if taken := [change for change in report.skipped if not _by_path(change)]:
        words = replace(request, adopt=("all",)).words
        next_step("apply", *words, workspace=request.workspace, why=_effect(taken))


def _effect(changes: Sequence[Change]) -> str:
    """What taking skipped files over does: `replaces 2 files, deletes 4 files`."""
    counts = Counter("deletes" if change.kind == "delete" else "replaces" for change in changes)
    return ", ".join(f"{verb} {counted(counts[verb], 'file')}" for verb in sorted(counts, reverse=True))


def print_report(report: ChangeReport, view: ChangeView, request: PlanRequest) -> bool:
    """Print a report as JSON, as diffs or as a list. Returns whether --verbose would name more files."""
    for why, paths in grouped((why, path) for path, why in report.not_adopted.items()).items():
        write_stderr(f"--adopt leaves {some_of(paths)}: {why}")
    line = write_stderr if report.written or view.diff else write
    if view.json:
        print_json(report)
    elif view.diff:
        sys.stdout.writelines(change.diff() for change in report.pending)
        line(_summary(report))
    else:
        return print_changes(report, line, verbose=view.verbose, skipped=not request.adopts_paths)
    return False


def print_changes(
    report: ChangeReport, line: Printer = write, *, verbose: bool = False, skipped: bool = True
) -> bool:
    """Print for each phase what is done to which files, and why, then the counts; with `verbose` every file,
    also those that are kept, and without `skipped` none that is skipped. Returns whether --verbose would name
    more files."""
    stream = sys.stdout if line is write else sys.stderr
    listed = [change for change in report.changes if change.code != "up-to-date"]
    shown = [
        change
        for change in listed
        if verbose or change.pending or (skipped if change.skipped else change.rules)
    ]
    more = len(shown) < len(listed)
    if report.stopped:
        _print_stopped(report.stopped, line, stream)
    for phase in PHASES:
        changes = [change for change in shown if change.phase == phase]
        if changes:
            line(phase if phase == "macOS" else f"{phase[0].upper()}{phase[1:]}", "bold")
        more |= _print_alike(changes, line, stream, verbose=verbose)
    _print_notes(report, line)
    if report.changes:
        line(_summary(report))
    return more


def _print_alike(changes: Sequence[Change], line: Printer, stream: TextIO, *, verbose: bool) -> bool:
    """Print changes, those with the same reason together. Returns whether names were only counted."""
    alike = grouped(
        (("skip" if change.skipped else change.kind, change.recipe, _why(change)), change)
        for change in changes
    )
    for (label, _, why), group in alike.items():
        names = [
            f"{change.path} (now {Path(change.old).name})" if change.old else change.path for change in group
        ]
        for name in names if verbose else [some_of(names)]:
            line(paint(f"  {label:8}", STYLES[label], stream) + printable(name))
        if label != "create":
            line(f"          {why}", "dim", hang=0)
    return not verbose and any(len(group) > 1 for group in alike.values())


def _print_notes(report: ChangeReport, line: Printer) -> None:
    """Print what to know of a plan besides its changes."""
    if report.copies:
        line(f"copies of files that are not committed: {some_of(report.copies, 3)}", "yellow")
    for differs, paths in grouped((change.differs, change.path) for change in report.changes).items():
        if differs and not report.written:
            line(f"kept with {', '.join(differs)}: {some_of(paths, 2)}", "yellow")
    if report.ignored:
        files = some_of(report.ignored, 3)
        line(f"git ignores {files}: Flox does not see that; change .gitignore and apply again", "yellow")
    if report.new_repos:
        line(f"now git repositories: {', '.join(report.new_repos)}")
    for commit in report.commits:
        line(f"committed {commit.revision} {commit.message}")
    if report.uncommitted and not report.written:
        line(f"not committed yet: {some_of(report.uncommitted)}; apply --commit commits them")
    if report.unusable:
        lists = command("list", workspace=report.root)
        line(f"no machine can use {counted(report.unusable, 'build')}; {lists} says why", "yellow")
    if report.renamed:
        names = [f"{old} becomes {new}" for old, new in report.renamed.values()]
        line(f"pname changes, and with it the name in the store: {some_of(names)}", "yellow")
    if report.split_torch and (report.pending or not report.written):
        _print_split_torch(report, line)


def _print_split_torch(report: ChangeReport, line: Printer) -> None:
    """Warn of generated companions whose torch recipe is not generated."""
    companions = [package_name(path) for paths in report.split_torch.values() for path in paths]
    torch, folder = (
        some_of([*map(package_name, report.split_torch)]),
        os.path.commonpath([*report.split_torch]),
    )
    what = f"{some_of(companions, 2)}: generated with torchsmith's torch, not that of {torch}, which is kept"
    line(f"{what}: torch may be compiled twice", "yellow")
    line(f"  --adopt {folder} takes torch over too; a companion written by hand can import it", "yellow")


def _print_stopped(stopped: StoppedRun, line: Printer, stream: TextIO) -> None:
    """Print what a stopped run has left."""
    line(f"Left by a stopped {stopped.verb}; torchsmith apply finishes it first", "bold")
    for kind, names in grouped((kind, path) for path, kind in stopped.files.items()).items():
        line(paint(f"  {kind:8}", STYLES[kind], stream) + printable(some_of(names)))
    for subject in stopped.commits:
        line(f"  commit  {subject}")


def _summary(report: ChangeReport) -> str:
    """`w (build-pytorch): recipes: 3 to create, 40 up to date; other files: 5 to create`, or what is done."""
    parts = []
    for title, recipe in (("recipes", True), ("other files", False)):
        changes = [change for change in report.changes if change.recipe is recipe]
        same = sum(change.code == "up-to-date" for change in changes)
        skipped = sum(change.skipped for change in changes)
        broken = sum(change.kind == "keep" and bool(change.rules) for change in changes)
        counts = Counter(COUNTED[change.kind] for change in changes if not change.skipped)
        counts["keep"] -= same + broken
        shares = [
            f"{counts[kind]} {done if report.written else f'to {kind}'}"
            for kind, done in DONE.items()
            if counts[kind]
        ]
        others = {"broken": broken, "up to date": same, "skipped": skipped}
        shares += [f"{count} {state}" for state, count in others.items() if count]
        if shares:
            parts.append(f"{title}: {', '.join(shares)}")
    repos = dict.fromkeys(change.path.partition("/")[0] for change in report.changes)
    nothing = "" if report.pending or report.written else "no changes; "
    return f"{report.root} ({', '.join(repos)}): {nothing}{'; '.join(parts)}"


def _why(change: Change) -> str:
    if not change.skipped:
        return change.reason
    if change.code == "not-text":
        return f"{change.reason}: replace it yourself"
    path = f" {change.path}" if _by_path(change) else ""
    return f"would {change.kind} (needs --adopt{path}): {change.reason}"
