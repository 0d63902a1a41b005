"""Words for people that several rooms say alike."""

from __future__ import annotations

from collections.abc import Sequence


def some_of(names: Sequence[str], shown: int = 1) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
