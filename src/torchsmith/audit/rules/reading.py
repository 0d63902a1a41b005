"""Reading: files that are no Nix. The audit says so and judges them no further."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchsmith.audit.rule import LARGEST, WARNING, Defect, rule
from torchsmith.edge.problem import Problem


@rule("TS004", "file too large to be judged", WARNING, over="file")
def file_is_a_recipe(path: Path, text: str) -> Iterator[Defect]:
    """A file of more than a million characters is not judged: recipes have some ten thousand, and no person
    reads what lies behind a megabyte of comments either."""
    if len(text) > LARGEST:
        yield Defect(f"it has {len(text):,} characters: more than {LARGEST:,} are not judged")


@rule("TS001", "file that cannot be read", over="unread")
def file_is_nix(problem: Problem) -> Iterator[Defect]:
    """A recipe that is not valid Nix cannot be built. Nothing else is said about it: what it means is not
    guessed at. Where Nix is installed, it is asked about what the grammar here does not know."""
    yield Defect(problem.message, hint=problem.hint)


@rule("TS005", "facts that contradict each other", over="facts")
def facts_agree(problem: Problem) -> Iterator[Defect]:
    """What a workspace's own `catalog` says must be possible: a line that builds the pin's own torch has the
    release that the pin has, a CUDA release is one that the pin has, a fix is for that release. Every other
    verb stops at such a file, and so nothing else is judged by it."""
    yield Defect(problem.message, hint=problem.hint)
