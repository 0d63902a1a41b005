"""What moving a line, or adding and removing lines and packages, changes, for people."""

from __future__ import annotations

from collections import Counter

from torchsmith.api.editing import EditReport
from torchsmith.cli.console import tell, write
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.edit.impact import summary

MAX_SHOWN = 5


def print_edit(report: EditReport) -> None:
    """Files of facts, recipes, hashes to be learned, and what evaluation says."""
    for path, text in report.files.items():
        done, would = ("wrote", "would write") if text is not None else ("deleted", "would delete")
        write(f"{done if report.written else would} {path}")
    if report.releases:
        write(f"{report.name}: {', '.join(f'{name} {text}' for name, text in report.releases.items())}")
    # A package's own recipes come before those of its companions.
    recipes = sorted(report.recipes, key=lambda recipe: f"/{report.name}-" not in recipe.path)
    for recipe in recipes[:MAX_SHOWN]:
        write(f"  {recipe.kind}  {recipe.path}")
    if len(recipes) > MAX_SHOWN:
        write(f"  … and {counted(len(recipes) - MAX_SHOWN, 'more recipe')}")
    _print_blocked(report)
    if report.to_learn:
        write(f"unknown hashes: {', '.join(report.to_learn)}")
    if report.effects is not None:
        for effect in report.effects:
            if effect.kind in ("broken", "still broken"):
                write(f"  {effect.kind}  {effect.name}: {effect.after}")
        write(f"by evaluation: {summary(report.effects)}")
    if not recipes and not report.files:
        tell("nothing to write: already up to date")
    counts = Counter("deleted" if recipe.kind == "delete" else "written" for recipe in recipes)
    for done, count in counts.items():
        tell(f"{counted(count, 'recipe')} {done if report.written else f'would be {done}'}")


def print_refused(report: EditReport) -> None:
    """What stands in the way of a change that is made whole or not at all."""
    _print_blocked(report)
    blocked, total = len(report.blocked), len(report.blocked) + len(report.recipes)
    why = f"{blocked} of {counted(total, 'recipe')} are blocked; --adopt takes them over"
    tell(f"nothing would be written: {why}")


def _print_blocked(report: EditReport) -> None:
    for why, paths in grouped((file.why, file.path) for file in report.blocked).items():
        write(f"  blocked  {some_of(paths)}: {why}", "yellow")
