"""What happened in a workspace: runs, builds and their durations, verdicts, hashes, packages published."""

from torchsmith.record.database import Record, open_record
from torchsmith.record.estimate import Expected, Past, Work, expect
from torchsmith.record.rows import (
    Attempt,
    Built,
    JobRow,
    JobState,
    Published,
    RunRow,
    RunState,
    VerificationRow,
)

__all__ = [
    "Attempt",
    "Built",
    "Expected",
    "JobRow",
    "JobState",
    "Past",
    "Published",
    "Record",
    "RunRow",
    "RunState",
    "VerificationRow",
    "Work",
    "expect",
    "open_record",
]
