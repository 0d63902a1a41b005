"""A package that was run, for people: what `test` prints."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from torchsmith.artifact.trial import StepOutcome, StepResult, Trial
from torchsmith.cli.console import out

MARKS: dict[StepOutcome, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "yellow"),
}


def print_trial(trial: Trial) -> None:
    """Every step with its outcome, and the sum."""
    console = out()
    console.print(Text(trial.variant or trial.path, style="bold"))
    facts = trial.facts
    if facts:
        cuda = f", CUDA {facts['cuda']}" if facts.get("cuda") else ""
        console.print(
            f"torch {facts['torch']}{cuda}, Python {facts['python']}, CPU dispatch {facts['cpu_capability']}",
            markup=False,
        )
    for result in trial.results:
        console.print(_line(result), soft_wrap=True)
    counts = Counter(result.outcome for result in trial.results)
    text = ", ".join(f"{counts[outcome]} {outcome}" for outcome in MARKS if counts[outcome])
    console.print(Text(text, style="bold green" if trial.ok else "bold red"))


def _line(result: StepResult) -> Text:
    mark, style = MARKS[result.outcome]
    line = Text.assemble((f"{mark} ", style), result.step)
    if result.detail:
        line.append(f": {result.detail}", style="dim" if result.outcome == "passed" else "")
    if result.hint:
        line.append(f"\n    {result.hint}", style="cyan")
    return line
