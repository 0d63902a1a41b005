"""What happens during a run, a type for each, for screens, logs and programs."""

from __future__ import annotations

from typing import Literal

import msgspec

from torchsmith.record import RunState


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    at: float = 0.0  # set for events of the run itself


class RunStarted(_Event, frozen=True, kw_only=True, tag="run-started"):
    """A run begins; how many jobs it has, by state."""

    counts: dict[str, int]


class JobStarted(_Event, frozen=True, kw_only=True, tag="job-started"):
    """A job was handed to its backend."""

    job: str
    name: str
    cores: int = 0
    attempt: int = 0
    expected: float = 0.0  # seconds; 0 if it is not estimated


class JobBuilding(_Event, frozen=True, kw_only=True, tag="building"):
    """A derivation of a job is being built; `builder` is left out on this machine."""

    job: str
    derivation: str
    builder: str = ""


class JobPhase(_Event, frozen=True, kw_only=True, tag="phase"):
    """A derivation of a job entered a phase."""

    job: str
    derivation: str
    phase: str


class JobSteps(_Event, frozen=True, kw_only=True, tag="steps"):
    """Ninja has done `done` of `total` steps of a job."""

    job: str
    done: int = 0
    total: int = 0


class JobEnded(_Event, frozen=True, kw_only=True, tag="job-ended"):
    """A job is done, has failed for good, or was skipped because what it needs failed."""

    job: str
    name: str
    state: Literal["done", "failed", "skipped"]
    builder: str = ""
    seconds: float = 0.0
    detail: str = ""
    outputs: tuple[str, ...] = ()
    counts: dict[str, int] = {}


class JobRetried(_Event, frozen=True, kw_only=True, tag="retry"):
    """A job failed and is tried again: with fewer `cores` at once, or else after `seconds`."""

    job: str
    name: str
    detail: str
    attempt: int
    cores: int = 0
    seconds: float = 0.0


class RecipeVerified(_Event, frozen=True, kw_only=True, tag="verified"):
    """A recipe's build was verified: whether it is what its name promises, and what is wrong."""

    name: str
    ok: bool
    detail: str = ""


class RunNote(_Event, frozen=True, kw_only=True, tag="note"):
    """Something to know, of a job, a recipe or the run."""

    detail: str
    job: str = ""
    name: str = ""


class RunEnded(_Event, frozen=True, kw_only=True, tag="run-ended"):
    """A run is over; how many jobs it had, by state."""

    state: RunState
    counts: dict[str, int]


Event = (
    RunStarted
    | JobStarted
    | JobBuilding
    | JobPhase
    | JobSteps
    | JobEnded
    | JobRetried
    | RecipeVerified
    | RunNote
    | RunEnded
)
