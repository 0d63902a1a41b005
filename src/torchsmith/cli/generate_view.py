"""What `generate` did, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from torchsmith.cli.console import err, out, print_json, say_recovered
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import Commit
from torchsmith.workspace.run import GenerateReport

STYLES = {
    "create": "green",
    "update": "cyan",
    "adopt": "magenta",
    "replace": "magenta",
    "delete": "red",
    "blocked": "yellow",
}
SHOWN = 12  # changes of one kind and repository that are listed one by one


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


def print_report(report: GenerateReport, *, check: bool, dry_run: bool) -> None:
    """Counts, and every file that needs a person."""
    console = out() if check or dry_run else err()
    say_recovered(report.recovered)
    by_kind: dict[str, list[Change]] = {}
    for change in report.changes:
        by_kind.setdefault(_kind(change), []).append(change)
    for kind, style in STYLES.items():
        changes = by_kind.get(kind, [])
        listed = changes if kind in ("blocked", "delete", "adopt") or check else changes[:SHOWN]
        for change in listed:
            line = Text(f"{kind:8}", style=style).append(change.path, style="default")
            why = "" if kind == "create" else f"  {change.why}"
            console.print(line.append(why, style="dim"), soft_wrap=True)
        if len(changes) > len(listed):
            console.print(Text(f"{'':8}… and {len(changes) - len(listed)} more", style="dim"))
    counts = {kind: len(by_kind.get(kind, ())) for kind in ("keep", *STYLES)}
    words = ", ".join(f"{count} {_word(kind)}" for kind, count in counts.items() if count)
    tense = "" if report.written else "would be: "
    console.print(f"{report.root}: {tense}{words}", soft_wrap=True)
    for commit in report.commits:
        console.print(f"{commit.repo}: committed {commit.revision} {commit.message}", soft_wrap=True)


def _kind(change: Change) -> str:
    """What `generate` calls a change: a rewrite updates a file of ours, adopts another's, or is not done."""
    if change.left:
        return "blocked"
    if change.kind == "rewrite":
        return "update" if change.owner == "ours" else "adopt"
    return change.kind


def _word(kind: str) -> str:
    return {"keep": "unchanged", "blocked": "left alone"}.get(
        kind, f"{kind}d" if kind != "adopt" else "adopted"
    )


def print_diff(report: GenerateReport) -> None:
    """Unified diffs of everything that would change."""
    sys.stdout.writelines(change.diff() for change in report.changes)


def print_report_json(report: GenerateReport) -> None:
    """The report as data, without the texts."""
    rows = [GeneratedRow(_kind(one), one.path, one.why) for one in report.changes if one.kind != "keep"]
    unchanged = len(report.changes) - len(rows)
    print_json(GeneratedDocument(report.root, report.written, unchanged, rows, report.commits))
