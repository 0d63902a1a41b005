"""One promise or condition of an artifact, whether it is kept, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["right", "wrong", "note", "unjudged"]


@dataclass(frozen=True, slots=True)
class Check:
    """One promise or condition, and whether it is kept."""

    id: str
    status: Status
    text: str
    hint: str = ""
    blocking: bool = True  # whether a build counts as verified only if this was judged


def megabytes(size: int) -> str:
    """A size for people."""
    if size < 1 << 10:
        return f"{size} bytes"
    if size < 1 << 20:
        return f"{size / 1024:.0f} KiB"
    return f"{size / (1 << 20):.0f} MiB" if size < 10 << 30 else f"{size / (1 << 30):.1f} GiB"


def passed(checks: Iterable[Check]) -> bool:
    """Whether nothing is wrong."""
    return all(check.status != "wrong" for check in checks)


def proved(checks: Iterable[Check]) -> bool:
    """Whether nothing is wrong, and nothing that was promised is left unjudged."""
    return not any(check.status == "wrong" or unjudged(check) for check in checks)


def unjudged(check: Check) -> bool:
    """Whether a promise was not judged, and should have been."""
    return check.status == "unjudged" and check.blocking
