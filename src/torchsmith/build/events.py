"""What happens while a run goes on, as one kind of value for screens, logs and programs."""

from __future__ import annotations

from typing import Literal

import msgspec

EventKind = Literal[
    "run-started",
    "job-started",
    "building",
    "phase",
    "steps",
    "line",
    "job-ended",
    "retry",
    "note",
    "run-ended",
]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened; fields that do not belong to its kind are left out."""

    kind: EventKind
    at: float = 0.0
    job: str = ""
    name: str = ""
    state: str = ""
    derivation: str = ""
    builder: str = ""
    phase: str = ""
    done: int = 0
    total: int = 0
    cores: int = 0
    attempt: int = 0
    seconds: float = 0.0
    expected: float = 0.0
    words: str = ""
    outputs: tuple[str, ...] = ()
    counts: dict[str, int] = {}
