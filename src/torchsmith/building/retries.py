"""Whether a job that failed is tried again, when, and with how many cores."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic

from torchsmith.building.job import Job, Outcome
from torchsmith.repair.diagnose import Diagnosis

MOST_ATTEMPTS = 5  # of a job whose failure may pass: network, a lost builder, memory
BACKOFF = (5.0, 20.0, 60.0, 180.0)  # seconds before each further attempt: a builder takes minutes to reboot


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt: with fewer cores at once, or else after some seconds."""

    cores: int = 0
    seconds: float = 0.0


@dataclass
class Retries:
    """The attempts of each job by its key, and when those that wait may continue."""

    attempts: Counter[str] = field(default_factory=Counter)
    not_before: dict[str, float] = field(default_factory=dict)

    def resting(self) -> set[str]:
        """Jobs whose next attempt is not due."""
        now = monotonic()
        return {key for key, due in self.not_before.items() if now < due}

    def decide(self, job: Job, outcome: Outcome, diagnosis: Diagnosis, cores: int) -> Retry | None:
        """The next attempt of a job that failed with so many cores; None if retrying would not help."""
        fewer = diagnosis.policy == "retry-fewer-jobs" and not outcome.builder  # Nix sends no cores over ssh
        hopeless = diagnosis.policy == "stop" or (fewer and cores == 1)
        attempt = self.attempts[job.key]
        if attempt >= MOST_ATTEMPTS or (hopeless and not outcome.killed):
            return None
        if fewer:
            return Retry(cores=max(1, cores // 2))
        base = BACKOFF[min(attempt, len(BACKOFF)) - 1]
        seconds = base * random.uniform(0.5, 1.5)  # builders do not all come back at once
        self.not_before[job.key] = monotonic() + seconds
        return Retry(seconds=seconds)
