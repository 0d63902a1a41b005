"""What was published, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rich.text import Text

from torchsmith.cli.console import out
from torchsmith.publish.publish import Row
from torchsmith.record import Record

STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


def verified_by(record: Record) -> Callable[[str], str]:
    """Why a package's last build does not count as verified, by the record."""

    def why(name: str) -> str:
        outputs = record.outputs_of(name)
        if not outputs:
            return "it was not built here; torchsmith build builds it"
        verdict = record.verdict(outputs[0])
        if verdict is None:
            return "its build was not verified"
        return "" if verdict.ok else f"its build is not right: {verdict.detail}"

    return why


def print_rows(rows: Sequence[Row]) -> None:
    """A line a package, then the counts."""
    console = out()
    for row in rows:
        line = Text(f"{row.standing:18}", style=STYLES.get(row.standing, "")).append(
            f"{row.org}/{row.name}", style="default"
        )
        facts = f"  {row.repo} at {row.revision[:12]}{f': {row.words}' if row.words else ''}"
        console.print(line.append(facts, style="dim"), soft_wrap=True)
    counts = Counter(row.standing for row in rows)
    console.print(
        ", ".join(f"{count} {standing}" for standing, count in counts.items()) or "nothing to publish"
    )
