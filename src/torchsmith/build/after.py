"""What is done with a build beside the schedule: looked at where that was asked for, copied to a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torchsmith.build.job import Job
from torchsmith.edge.problem import Problem
from torchsmith.record import VerificationRow

LookAt = Callable[[str, str], VerificationRow | None]  # a recipe's name and output; None: it promises nothing


class Copies(Protocol):
    """Copies outputs elsewhere, and says what went wrong."""

    def copy(self, paths: Sequence[str]) -> str: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Afterwards:
    """How it went: what was seen of each recipe, and what went wrong with the copy."""

    job: Job
    verdicts: tuple[VerificationRow, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class After:
    """In a thread of its own, so that neither the schedule nor a job's time waits for it."""

    look: LookAt | None = None
    copier: Copies | None = None

    def of(self, job: Job, outputs: Sequence[str]) -> Afterwards:
        """Look at a build, then copy it; what does not keep the promise of its name stays here."""
        done = Afterwards(job)
        try:
            if self.look is not None and outputs:
                found = (self.look(name, outputs[0]) for name in job.recipes)
                done = replace(done, verdicts=tuple(verdict for verdict in found if verdict is not None))
            if self.copier is not None and outputs and all(verdict.ok for verdict in done.verdicts):
                done = replace(done, words=self.copier.copy(outputs))
        except Problem as problem:
            done = replace(done, words=str(problem))
        return done

    def stop(self) -> None:
        if self.copier is not None:
            self.copier.stop()
