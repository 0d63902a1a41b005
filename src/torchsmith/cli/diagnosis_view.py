"""A failure for people: what it is, why, what to do, and the lines that show it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from torchsmith.repair.diagnose import Diagnosis

POLICIES = {
    "retry": "torchsmith tries it again",
    "retry-fewer-jobs": "torchsmith tries it again with half the compilers",
    "stop": "trying again would not help",
}


SURE = {"certain": "", "likely": "likely", "guess": "a guess: it stands far from the end, or nothing does"}


def print_diagnosis(console: Console, found: Diagnosis, name: str = "") -> None:
    """The answer first, the evidence after."""
    head = Text(f"{name}: " if name else "").append(found.title, style="bold red")
    sure = f", {SURE[found.sure]}" if SURE[found.sure] else ""
    console.print(head.append(f"  [{found.kind}{sure}]", style="dim"), soft_wrap=True)
    rows = [("cause", found.cause), ("cure", found.cure), ("policy", POLICIES[found.policy])]
    for label, words in rows:
        console.print(Text(f"  {label:7}", style="cyan").append(words, style="default"), soft_wrap=True)
    if found.lines:
        place = f"around line {found.line_number}" if found.line_number else "the end"
        console.print(Text(f"  {place}:", style="dim"))
        for line in found.lines:
            console.print(Text(f"  │ {line}"), soft_wrap=True)
