"""Plans and what became of them, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchsmith.cli.console import print_json, say_recovered
from torchsmith.cli.paint import paint, tell, write
from torchsmith.edge.words import grouped, some_of
from torchsmith.plan.apply import Applied
from torchsmith.plan.plan import PHASES, WorkspacePlan
from torchsmith.workspace.change import KINDS, Change
from torchsmith.workspace.journal import Commit
from torchsmith.workspace.reconcile import AS_IT_SHOULD_BE

STYLES = {"keep": "dim", "create": "green", "rewrite": "cyan", "replace": "magenta", "delete": "red"}
SHOWN = 6  # new files of one phase that are listed one by one


def print_plan(plan: WorkspacePlan) -> None:
    """Phase by phase; files with their reason, which those that have it in common share; many are counted."""
    for phase in PHASES:
        actions = [one for one in plan.changes if plan.phase(one) == phase and not _silent(one)]
        if not actions:
            continue
        write(f"{phase[0].upper()}{phase[1:]}", "bold")
        alike = grouped(((one.kind, "" if one.kind == "create" else _why(one)), one.path) for one in actions)
        for (kind, why), paths in sorted(alike.items(), key=lambda group: group[0][0] == "create"):
            shown = paths if kind not in ("create", "keep") else paths[:SHOWN]
            for path in shown:
                write(paint(f"  {kind:8}", STYLES[kind]) + path)
            if len(paths) > len(shown):
                write(f"          … and {len(paths) - len(shown)} more to {kind}", "dim")
            if why:
                write(f"          {why}", "dim", hang=0)
    write(_counts(plan))


def _why(change: Change) -> str:
    return f"{change.why}{'  (left: --adopt takes it)' if change.left else ''}"


def _silent(change: Change) -> bool:
    return change.kind == "keep" and change.why == AS_IT_SHOULD_BE


def _counted(plan: WorkspacePlan) -> dict[str, int]:
    return {kind: len(plan.recipes(kind)) for kind in KINDS}


def _counts(plan: WorkspacePlan) -> str:
    counts = _counted(plan)
    words = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count) or "nothing to do"
    others = [one for one in plan.pending if not one.recipe]
    rest = f"; {len(others)} other files to write" if others else ""
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
    words = f"{len(applied.done)} files done"
    if applied.left:
        words += f", {len(applied.left)} left to their owner: --adopt takes them over"
    tell(f"{applied.plan.root}: {words}")


def print_applied_json(applied: Applied) -> None:
    """What was done, as data."""
    plan = applied.plan
    print_json(AppliedDocument(_rows(plan, applied.done), _rows(plan, applied.left), applied.commits))
