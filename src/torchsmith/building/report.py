"""How a run of builds ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.core.problem import Exit
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import RunState
from torchsmith.repair.diagnose import Diagnosis


@dataclass(frozen=True, slots=True)
class BuildReport:
    """How a run ended."""

    state: RunState
    done: tuple[str, ...] = ()
    failed: Mapping[str, Diagnosis] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()  # interrupted, or never started
    notes: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()  # recipes that needed no build, and are there
    wrong: Mapping[str, str] = field(default_factory=dict)  # recipes that verify does not accept
    broken: Mapping[str, Cause] = field(default_factory=dict)  # recipes that do not evaluate
    jobs: int = 0  # that there were in all
    above: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the recipes that a failed job is for
    # Builds that are right, by recipe: links to them, or their places in a store of torchsmith's own.
    results: Mapping[str, Path] = field(default_factory=dict)

    @property
    def exit(self) -> Exit:
        """ENVIRONMENT if nothing but downloads failed."""
        if self.state == "done" and not (self.broken or self.notes or self.wrong):
            return Exit.OK
        kinds = {diagnosis.kind for diagnosis in self.failed.values()}
        unread = exit_of(self.broken.values())
        others = self.notes or self.wrong or unread is Exit.CHECK_FAILED
        only_downloads = (kinds or unread) and kinds <= {"network"} and not others
        return Exit.ENVIRONMENT if only_downloads else Exit.CHECK_FAILED
