"""What was published, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.text import Text

from torchsmith.cli.console import out
from torchsmith.publish.publish import PublishedRow

STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


class PublishDocument(msgspec.Struct, frozen=True):
    """How each package stands."""

    packages: Sequence[PublishedRow]


def print_rows(rows: Sequence[PublishedRow]) -> None:
    """A line a package, then the counts."""
    console = out()
    for row in rows:
        line = Text(f"{row.standing:18}  ", style=STYLES.get(row.standing, "")).append(
            f"{row.org}/{row.name}", style="default"
        )
        facts = f"  {row.repo} at {row.revision[:12]}{f': {row.words}' if row.words else ''}"
        console.print(line.append(facts, style="dim"), soft_wrap=True)
    counts = Counter(row.standing for row in rows)
    console.print(
        ", ".join(f"{count} {standing}" for standing, count in counts.items()) or "nothing to publish"
    )
