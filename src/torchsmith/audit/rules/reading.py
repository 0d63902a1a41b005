"""Reading: files that are no Nix. The audit says so and judges them no further."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.audit.rule import Defect, rule
from torchsmith.edge.problem import Problem


@rule("TS001", "file that cannot be read", over="unread")
def file_is_nix(problem: Problem) -> Iterator[Defect]:
    """A recipe that is not valid Nix cannot be built. Nothing else is said about it: what it means is not
    guessed at. Where Nix is installed, it is asked about what the grammar here does not know."""
    yield Defect(problem.message, hint=problem.hint)
