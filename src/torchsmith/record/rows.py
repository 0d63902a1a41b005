"""The rows of the record as values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import msgspec

RunState = Literal["running", "done", "failed", "stopped"]
JobState = Literal["waiting", "running", "done", "failed", "skipped", "lost"]


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `build`: what was asked for, by which backend, and its state."""

    id: int
    started: float
    ended: float | None
    state: RunState
    backend: str
    selection: tuple[str, ...]
    nixpkgs: tuple[str, ...]  # trees in place of downloads, as --nixpkgs takes them
    process: int

    @property
    def alive(self) -> bool:
        """Whether its process is still there; after a kill the record still says that it runs."""
        try:
            os.kill(self.process, 0)
        except OSError as error:
            return isinstance(error, PermissionError)  # of another user
        return True


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a run: a build that was handed to the backend, or waits to be."""

    run: int
    key: str
    name: str
    package: str
    gpu: bool
    system: str
    targets: tuple[str, ...]
    state: JobState
    attempts: int = 0
    started: float | None = None
    ended: float | None = None
    cores: int = 0
    builder: str = ""
    outputs: tuple[str, ...] = ()
    error: str = ""
    log: str = ""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken; 0 before it starts."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, self.ended - self.started)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt at a job ended."""

    state: JobState
    outputs: Sequence[str] = ()
    builder: str = ""
    error: str = ""


class VerificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """What verification said about an output."""

    output: str
    name: str
    ok: bool
    unrecorded: bool = False  # nothing but the record of its compiler flags is missing
    detail: str = ""
    derivation: str = ""  # that made the output; empty if Flox built it
    at: float = 0.0


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe whose results are there: the derivation it was, or for Flox what its files were."""

    name: str
    derivation: str = ""  # empty: Flox built it, which names none
    source: str = ""  # of the recipe and every file that it reads
    revision: str = ""  # of its repository
    outputs: tuple[str, ...]
    at: float = 0.0


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A package that was published: from which commit, to whom."""

    name: str
    org: str
    revision: str
    at: float
