"""A failure for people: what it is, why, what to do, and the lines that show it."""

from __future__ import annotations

import sys

from torchsmith.cli.paint import Printer, paint, quote, write
from torchsmith.repair.diagnose import Diagnosis

POLICIES = {
    "retry": "torchsmith tries it again",
    "retry-fewer-jobs": "torchsmith tries it again with half the compilers",
    "stop": "trying again would not help",
}
SURE = {"certain": "", "likely": "likely", "guess": "a guess: nothing near the end says why"}


def print_diagnosis(found: Diagnosis, name: str = "", line: Printer = write) -> None:
    """The answer first, the evidence after."""
    stream = sys.stdout if line is write else sys.stderr
    sure = f", {SURE[found.sure]}" if SURE[found.sure] else ""
    title = (f"{name}: " if name else "") + paint(found.title, "bold red", stream)
    line(title + paint(f"  [{found.kind}{sure}]", "dim", stream))
    rows = {"cause": found.cause, "cure": found.cure, "policy": POLICIES[found.policy]}
    for label, words in rows.items():
        line(paint(f"  {label:7}", "cyan", stream) + words, hang=9)
    if found.lines:
        line(f"  around line {found.line_number}:" if found.line_number else "  the end:", "dim")
        for text in found.lines:
            quote(text, "  │ ", line)
