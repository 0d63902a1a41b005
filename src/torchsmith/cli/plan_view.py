"""Plans and what became of them, for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchsmith.cli.console import next_step, paint, print_json, say_recovered, tell, write
from torchsmith.core.words import counted, grouped, printable, some_of
from torchsmith.edit.plan import PHASES, Applied, WorkspacePlan
from torchsmith.workspace.change import KINDS, Change
from torchsmith.workspace.journal import Commit
from torchsmith.workspace.reconcile import AS_IT_SHOULD_BE

STYLES = {"keep": "dim", "create": "green", "rewrite": "cyan", "replace": "magenta", "delete": "red"}
FIGURES = re.compile(r"\d+(?:\.\d+)*")


def print_plan(plan: WorkspacePlan, workspace: Path | None = None, *, verbose: bool = False) -> None:
    """Phase by phase: what is done, to how many files, and why; with `verbose` to which."""
    more = False
    for phase in PHASES:
        actions = [one for one in plan.changes if plan.phase(one) == phase and not _silent(one)]
        if not actions:
            continue
        write(f"{phase[0].upper()}{phase[1:]}", "bold")
        alike = grouped(((one.kind, _why(one) if verbose else _kind_of_why(one)), one) for one in actions)
        for (kind, _), changes in alike.items():
            names = [one.path for one in changes]
            more = more or (not verbose and len(names) > 1)
            for name in names if verbose else [some_of(names)]:
                write(paint(f"  {kind:8}", STYLES[kind]) + printable(name))
            if kind != "create":
                write(f"          {_why(changes[0])}", "dim", hang=0)
    write(_counts(plan))
    if more:
        next_step("plan", "--verbose", workspace=workspace, why="every file")


def _why(change: Change) -> str:
    return f"{change.why}{'  (left: --adopt takes it)' if change.left else ''}"


def _kind_of_why(change: Change) -> str:
    """A reason without the cell that it is told of: many recipes have the same fault, each in its figures."""
    return FIGURES.sub("", _why(change).replace(change.path, "")) if change.kind != "create" else ""


def _silent(change: Change) -> bool:
    return change.kind == "keep" and change.why == AS_IT_SHOULD_BE


def _counted(plan: WorkspacePlan) -> dict[str, int]:
    return {kind: len(plan.recipes(kind)) for kind in KINDS}


def _counts(plan: WorkspacePlan) -> str:
    counts = _counted(plan)
    words = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count) or "nothing to do"
    others = [one for one in plan.pending if not one.recipe]
    rest = f"; {counted(len(others), 'other file')} to write" if others else ""
    return f"{plan.root}: recipes: {words}; {plan.afterwards} afterwards{rest}"


class ActionRow(msgspec.Struct, frozen=True):
    """What is done to a file, in which phase, and whose it is."""

    kind: str
    path: str
    why: str
    phase: str
    recipe: bool
    owner: str
    old: str


class PlanDocument(msgspec.Struct, frozen=True):
    """What `apply` would do."""

    root: Path
    recipes: dict[str, int]
    actions: list[ActionRow]


class AppliedDocument(msgspec.Struct, frozen=True):
    """What `apply` did."""

    done: list[ActionRow]
    left: list[ActionRow]
    commits: Sequence[Commit]


def _rows(plan: WorkspacePlan, changes: Sequence[Change]) -> list[ActionRow]:
    return [
        ActionRow(one.kind, one.path, one.why, plan.phase(one), one.recipe, one.owner or "", one.old)
        for one in changes
    ]


def print_plan_json(plan: WorkspacePlan) -> None:
    """The plan as data, without the texts."""
    counts = _counted(plan) | {"afterwards": plan.afterwards}
    print_json(PlanDocument(plan.root, counts, _rows(plan, plan.changes)))


def print_applied(applied: Applied) -> None:
    """Commits, counts, and what was left to its owner."""
    say_recovered(applied.recovered)
    for commit in applied.commits:
        tell(f"{commit.repo}: {commit.revision} {commit.message}")
    for (kind, why), paths in grouped(((one.kind, one.why), one.path) for one in applied.left).items():
        tell(paint(f"left    {some_of(paths)}", "yellow", sys.stderr))
        tell(f"        {kind}: {why}", "dim", hang=0)
    words = f"{counted(len(applied.done), 'file')} done"
    if applied.left:
        words += f", {len(applied.left)} left to their owner: --adopt takes them over"
    tell(f"{applied.plan.root}: {words}")


def print_applied_json(applied: Applied) -> None:
    """What was done, as data."""
    plan = applied.plan
    print_json(AppliedDocument(_rows(plan, applied.done), _rows(plan, applied.left), applied.commits))
