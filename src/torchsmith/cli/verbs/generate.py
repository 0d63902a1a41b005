"""`torchsmith generate`: the workspace's recipes and everything around them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.api.fields import Option
from torchsmith.api.options import AdoptedPaths, JsonOption, ProfileOption, WaitOption, WorkspaceOption
from torchsmith.cli.console import Printer, exit_if, next_step, paint, print_json, say_recovered, tell, write
from torchsmith.core.words import counted, grouped, printable, some_of
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import Commit
from torchsmith.workspace.run import GenerateReport, GenerateRequest, generate

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds"
STYLES = {
    "create": "green",
    "update": "cyan",
    "adopt": "magenta",
    "replace": "magenta",
    "delete": "red",
    "blocked": "yellow",
}
WORDS = {"keep": "unchanged", "adopt": "adopted", "blocked": "left alone"}  # others take a d
SHOWN = 12  # changes of one kind that are listed one by one


class GeneratedRow(msgspec.Struct, frozen=True):
    """What becomes of a file."""

    kind: str
    path: str
    why: str


class GeneratedDocument(msgspec.Struct, frozen=True):
    """What `generate` wrote, or would write."""

    root: Path
    written: bool
    unchanged: int
    changes: list[GeneratedRow]
    commits: Sequence[Commit]


def run(
    paths: AdoptedPaths = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    only: Annotated[list[str] | None, Option("Write just the recipes that this selector picks.")] = None,
    check: Annotated[bool, Option("Write nothing; exit 1 if a file is stale.")] = False,
    diff: Annotated[bool, Option("Write nothing; print what would change.")] = False,
    dry_run: Annotated[bool, Option("Write nothing; list what would be done.")] = False,
    adopt: Annotated[
        bool, Option("Take over recipes that are not ours; git or .orig keeps what they were.")
    ] = False,
    commit: Annotated[bool, Option("Commit in each repository.")] = False,
    git: Annotated[bool, Option("--git/--no-git", "Tell git of the files, as Flox needs.")] = True,
    wait: WaitOption = 0.0,
    json: JsonOption = False,
) -> None:
    """Write the workspace: recipes, Flox files and pages for each package.

    Only files that torchsmith wrote, and nobody edited since, are replaced or deleted; files of others stay,
    and [bold]plan[/bold] judges them. The exit code is 1 when an edited file was left, or with
    [bold]--check[/bold] one is stale.
    """
    report = generate(
        GenerateRequest(
            workspace=workspace,
            profile=profile,
            only=tuple(only or ()),
            write=not (check or diff or dry_run),
            adopt=adopt,
            paths=tuple(paths or ()),
            commit=commit,
            git=git,
            wait_seconds=wait,
        )
    )
    if json:
        print_json(_document(report))
    elif diff:
        sys.stdout.writelines(change.diff() for change in report.changes)
    else:
        _print_report(report, check=check, dry_run=dry_run)
        if report.blocked:
            next_step("plan", workspace=workspace, why="judges what was left")
        elif not (check or dry_run):
            next_step("audit", str(workspace or "."), why="are they right?")
            next_step("build", "--dry-run", workspace=workspace, why="what would it take?")
    exit_if(report.conflicts or (check and report.pending))


def _kind(change: Change) -> str:
    """What `generate` calls a change: a rewrite updates a file of ours, adopts another's, or is not done."""
    if change.left:
        return "blocked"
    if change.kind == "rewrite":
        return "update" if change.owner == "ours" else "adopt"
    return change.kind


def _document(report: GenerateReport) -> GeneratedDocument:
    rows = [GeneratedRow(_kind(one), one.path, one.why) for one in report.changes if one.kind != "keep"]
    unchanged = len(report.changes) - len(rows)
    return GeneratedDocument(report.root, report.written, unchanged, rows, report.commits)


def _print_report(report: GenerateReport, *, check: bool, dry_run: bool) -> None:
    """Counts, and every file that needs a person."""
    line, stream = (write, sys.stdout) if check or dry_run else (tell, sys.stderr)
    say_recovered(report.recovered)
    by_kind = grouped((_kind(change), change) for change in report.changes)
    theirs = [one for one in report.blocked if one not in report.conflicts]
    for kind, style in STYLES.items():
        changes = report.conflicts if kind == "blocked" else by_kind.get(kind, [])
        listed = changes if kind in ("blocked", "delete") or check else changes[:SHOWN]
        for change in listed:
            why = "" if kind == "create" else paint(f"  {change.why}", "dim", stream)
            line(paint(f"{kind:8}", style, stream) + printable(change.path + why), hang=8)
        if len(changes) > len(listed):
            line(f"{'':8}… and {len(changes) - len(listed)} more", "dim")
    if theirs:
        names = some_of([one.path for one in theirs])
        line(f"others wrote {names}: they stay; --adopt takes recipes over")
    counts = {kind: len(by_kind.get(kind, ())) for kind in ("keep", *STYLES)}
    words = ", ".join(f"{count} {WORDS.get(kind, f'{kind}d')}" for kind, count in counts.items() if count)
    line(f"{report.root}: {'' if report.written else 'would be: '}{words}")
    _print_narrowed(report, line)
    for commit in report.commits:
        line(f"{commit.repo}: committed {commit.revision} {commit.message}")


def _print_narrowed(report: GenerateReport, line: Printer) -> None:
    """What an upgrade costs whose recipes name their GPU to nixpkgs: every derivation is another one."""
    if gpus := report.narrowed:
        line(
            f"{counted(len(gpus), 'recipe')} become other derivations: MAGMA, NCCL and OpenCV are built for"
            f" each GPU alone, {counted(len(set(gpus)), 'time')} instead of once",
            "yellow",
        )
        line(
            'narrow = "torch" in torchsmith.toml leaves those as they were; torchsmith impact lists all',
            "yellow",
        )
