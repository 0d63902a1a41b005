"""What becomes of the files of a workspace, for people."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence

from torchsmith.api.writing import ChangeReport, FileChange
from torchsmith.cli.console import Printer, paint, tell, write
from torchsmith.core.text import counted, grouped, printable, some_of
from torchsmith.workspace.reconcile import PHASES, UP_TO_DATE

STYLES = {
    "create": "green",
    "rewrite": "cyan",
    "replace": "magenta",
    "delete": "red",
    "skip": "yellow",
    "keep": "dim",
}
COUNTED = {"create": "create", "rewrite": "change", "replace": "change", "delete": "delete", "keep": "keep"}
DONE = {"create": "created", "change": "changed", "delete": "deleted", "keep": "kept"}
FIGURES = re.compile(r"\d+(?:\.\d+)*")


def print_changes(report: ChangeReport, line: Printer = write, *, verbose: bool = False) -> bool:
    """The counts; then phase by phase what is done, to how many files, and why; with `verbose` to which.
    Returns whether files were counted that `verbose` names."""
    stream = sys.stdout if line is write else sys.stderr
    line(f"{report.root}: {summary(report)}")
    more = False
    for phase in PHASES:
        changes = [change for change in report.changes if change.phase == phase and not _silent(change)]
        if changes:
            line(f"{phase[0].upper()}{phase[1:]}", "bold")
        alike = grouped(
            ((_label(change), change.recipe, _why(change) if verbose else _kind_of_why(change)), change)
            for change in changes
        )
        for (label, *_), group in alike.items():
            names = [change.path for change in group]
            more = more or (not verbose and len(names) > 1)
            for name in names if verbose else [some_of(names)]:
                line(paint(f"  {label:8}", STYLES[label], stream) + printable(name))
            if label != "create":
                line(f"          {_why(group[0])}", "dim", hang=0)
    _print_narrowed(report.narrowed, line)
    if report.copies:
        line(f"copies of files that git does not hold: {some_of(report.copies, 3)}", "yellow")
    for commit in report.commits:
        line(f"{commit.repo}: committed {commit.revision} {commit.message}")
    return more


def summary(report: ChangeReport) -> str:
    """`recipes: 3 to create, 1 to delete, 40 to keep; other files: 5 to create`, or what was done."""
    parts = []
    for title, recipe in (("recipes", True), ("other files", False)):
        changes = [change for change in report.changes if change.recipe is recipe]
        counts = Counter(COUNTED[change.kind] for change in changes if not change.skipped)
        shares = [
            f"{counts[kind]} {done if report.written else f'to {kind}'}"
            for kind, done in DONE.items()
            if counts[kind]
        ]
        if skipped := sum(change.skipped for change in changes):
            shares.append(f"{skipped} skipped")
        if shares:
            parts.append(f"{title}: {', '.join(shares)}")
    return "; ".join(parts)


def _label(change: FileChange) -> str:
    return "skip" if change.skipped else change.kind


def _why(change: FileChange) -> str:
    adopt = "; --adopt takes it over" if change.skipped and "--adopt" not in change.why else ""
    return (
        f"{'' if not change.skipped or change.kind == 'rewrite' else f'{change.kind}: '}{change.why}{adopt}"
    )


def _kind_of_why(change: FileChange) -> str:
    """A reason without the cell that it is told of: many recipes have the same fault, each in its figures."""
    return FIGURES.sub("", _why(change).replace(change.path, "")) if change.kind != "create" else ""


def _silent(change: FileChange) -> bool:
    return change.kind == "keep" and change.why == UP_TO_DATE


def _print_narrowed(gpus: Sequence[str], line: Printer) -> None:
    """What an upgrade costs whose recipes name their GPU to nixpkgs: every derivation is another one."""
    if gpus:
        line(
            f"{counted(len(gpus), 'recipe')} become other derivations: MAGMA, NCCL and OpenCV are built for"
            f" each GPU alone, {counted(len(set(gpus)), 'time')} instead of once",
            "yellow",
        )
        hint = 'narrow = "torch" in torchsmith.toml leaves those as they were; torchsmith impact lists all'
        line(hint, "yellow")


def may_delete(report: ChangeReport) -> bool:
    """Show what would be done, and ask whether files may be deleted; no where nobody can answer."""
    print_changes(report, tell)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    count = sum(change.kind == "delete" for change in report.pending)
    sys.stderr.write(f"Delete {counted(count, 'file')}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
