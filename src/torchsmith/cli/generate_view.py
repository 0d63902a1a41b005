"""What `generate` did, for people."""

from __future__ import annotations

import difflib
import sys

from rich.text import Text

from torchsmith.cli.console import err, out, print_json
from torchsmith.workspace.run import Report

STYLES = {"create": "green", "update": "cyan", "adopt": "magenta", "delete": "red", "blocked": "yellow"}
SHOWN = 12  # changes of one kind and repository that are listed one by one


def print_report(report: Report, *, check: bool, dry_run: bool) -> None:
    """Counts, and every file that needs a person."""
    console = out() if check or dry_run else err()
    for kind, style in STYLES.items():
        changes = report.of(kind)
        listed = changes if kind in ("blocked", "delete", "adopt") or check else changes[:SHOWN]
        for change in listed:
            line = Text(f"{kind:8}", style=style).append(change.path, style="default")
            console.print(line.append(f"  {change.why}" if change.why else "", style="dim"), soft_wrap=True)
        if len(changes) > len(listed):
            console.print(Text(f"{'':8}… and {len(changes) - len(listed)} more", style="dim"))
    counts = {kind: len(report.of(kind)) for kind in ("keep", *STYLES)}
    words = ", ".join(f"{count} {_word(kind)}" for kind, count in counts.items() if count)
    tense = "" if report.written else "would be: "
    console.print(f"{report.root}: {tense}{words}", soft_wrap=True)
    for commit in report.commits:
        console.print(f"{commit.repo}: committed {commit.revision} {commit.message}", soft_wrap=True)


def _word(kind: str) -> str:
    return {"keep": "unchanged", "blocked": "left alone"}.get(
        kind, f"{kind}d" if kind != "adopt" else "adopted"
    )


def print_diff(report: Report) -> None:
    """Unified diffs of everything that would change."""
    for change in report.changes:
        if change.kind == "keep" or (change.before is None and change.after is None):
            continue
        lines = difflib.unified_diff(
            (change.before or "").splitlines(keepends=True),
            (change.after or "").splitlines(keepends=True),
            f"a/{change.path}" if change.before is not None else "/dev/null",
            f"b/{change.path}" if change.after is not None else "/dev/null",
        )
        sys.stdout.writelines(lines)


def print_report_json(report: Report) -> None:
    """The report as data, without the texts."""
    rows = [
        {"kind": change.kind, "path": change.path, "why": change.why}
        for change in report.changes
        if change.kind != "keep"
    ]
    commits = [{"repo": one.repo, "revision": one.revision, "message": one.message} for one in report.commits]
    print_json(
        {
            "root": str(report.root),
            "written": report.written,
            "unchanged": len(report.of("keep")),
            "changes": rows,
            "commits": commits,
        }
    )
