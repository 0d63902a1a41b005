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
