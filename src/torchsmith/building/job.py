"""A job, its outcome, and the backends that build it: Nix and Flox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

from torchsmith.building.events import Event
from torchsmith.record import Work

OnEvent = Callable[[Event], None]


class JobName(TypedDict):
    """How events name a job."""

    job: str
    name: str


@dataclass(frozen=True, slots=True)
class Job:
    """A recipe's build, a long build that recipes share, or a bundle of small ones that several jobs need."""

    key: str
    name: str
    targets: tuple[str, ...]  # derivations for Nix, a package name for Flox
    package: str  # the kind of build, as the catalog's estimates call it
    gpu: bool
    system: str
    needs: frozenset[str] = frozenset()  # keys of jobs that come first
    recipes: tuple[str, ...] = ()  # the names that it builds; empty for what recipes share
    outputs: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()  # that the builder must have, such as big-parallel
    isa: str = ""  # the instruction set that runs in its checks
    repo: str = ""  # the folder of its recipe
    stability: str = ""  # what `flox build --stability` needs
    size: int = 1  # derivations in it
    gpus: int = 1  # that it compiles for
    estimated: bool = True  # the catalog has figures for it
    objects: tuple[str, ...] = ()  # of its GPU, of its instruction set: what a compile cache shares

    @property
    def derivation(self) -> str:
        """The derivation that it builds; empty with Flox, which does not report it."""
        return self.key if self.key.endswith(".drv") else ""

    @property
    def ids(self) -> JobName:
        return {"job": self.key, "name": self.name}

    @property
    def work(self) -> Work:
        return Work(self.name, self.package, self.gpu, self.system, self.gpus, self.estimated)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. The log has the reason if it failed."""

    ok: bool
    outputs: tuple[str, ...] = ()
    builder: str = ""
    killed: bool = False  # by a signal, not by its own error: another attempt may succeed
    log_tail: str = ""  # the last lines of the log, if the file could not take them
    note: str = ""  # something to know though it went well


class Backend(Protocol):
    """Builds a job to its end; `stop` ends everything that is running, from any thread."""

    def command(self, job: Job, cores: int) -> list[str]:
        """What a person would type to do the same."""
        ...

    def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome: ...
    def stop(self) -> None: ...
