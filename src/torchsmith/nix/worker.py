"""A process that evaluates recipes: its expression, its messages, and its limits of memory and time."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.core.nixtext import NixValue, nix_value
from torchsmith.core.problem import Failed
from torchsmith.core.process import ChildProcess
from torchsmith.nix.errors import Cause, cause_of, parse_event, shorten
from torchsmith.nix.fetch import Download, Tarball
from torchsmith.nix.keeper import Keeper
from torchsmith.nix.prepare import SCOPE, EvalJob, Preparation, original
from torchsmith.nix.tool import Nix

POLL_SECONDS = 0.05  # between two readings of a silent worker's memory
ERROR = 0  # Nix' level of errors


class DerivationFacts(msgspec.Struct, frozen=True):
    """The facts that a recipe's value states; None if it does not."""

    pname: str | None = None
    version: str | None = None
    description: str | None = None
    platforms: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = None
    variant: str | None = None
    line: str | None = None


class Evaluated(msgspec.Struct, frozen=True):
    """The derivation that a recipe becomes."""

    drv_path: str
    name: str
    system: str
    outputs: Mapping[str, str]
    facts: DerivationFacts


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a run of evaluations may use."""

    workers: int = 2
    memory: int = 2 << 30  # bytes of each worker
    seconds: float = 300.0  # of each recipe


@dataclass(frozen=True, slots=True)
class EvalResult:
    """What a recipe evaluates to, or why it does not."""

    name: str
    path: Path
    seconds: float
    evaluated: Evaluated | None = None
    cause: Cause | None = None
    cached: bool = False
    lost: bool = False  # its derivation was in the store, and was collected as garbage at once

    @property
    def ok(self) -> bool:
        return self.evaluated is not None


@dataclass(frozen=True, slots=True)
class Session:
    """Everything that the workers of one run have in common."""

    nix: Nix
    limits: WorkerLimits
    instantiate: bool = False  # also put the derivations into the store
    twin: str = ""  # the system to import every nixpkgs for, in place of the recipes' own
    preparation: Preparation = field(default_factory=Preparation)
    folder: Path = Path()  # holds the prepared files
    trees: Mapping[str, str] = field(default_factory=dict)
    downloads: Mapping[Tarball, Download] = field(default_factory=dict)
    keeper: Keeper | None = None

    def write(self) -> None:
        """Write the prepared files."""
        driver = files("torchsmith.nix").joinpath("driver.nix").read_text()
        (self.folder / "driver.nix").write_text(driver)
        for key, closed in self.preparation.shared.items():
            above = "\n" * (closed.span.line - 1)  # so that an error names the line in the recipe
            (self.folder / f"{key}.nix").write_text(f"{above}{SCOPE}{closed.text}")
        for index, job in enumerate(self.preparation.jobs):
            if job.text is not None:
                (self.folder / f"j{index}.nix").write_text(job.text)
            for name, text in job.files.items():
                (self.folder / f"{name}.nix").write_text(text)

    def expression(self, batch: Sequence[EvalJob], mark: str) -> str:
        """The call of the driver for some recipes."""
        numbers = {id(job): index for index, job in enumerate(self.preparation.jobs)}
        keys = dict.fromkeys(key for job in batch for key in job.shares)
        arguments: dict[str, NixValue] = {
            "mark": mark,
            "trees": self.trees,
            "downloads": {tarball.key: msgspec.to_builtins(done) for tarball, done in self.downloads.items()},
            "shared": {key: self.folder / f"{key}.nix" for key in keys},
            "roots": [f"{root}/" for root in self.preparation.readable.roots],
            "jobs": [self._job(job, numbers[id(job)]) for job in batch],
            "twin": self.twin or None,
        }
        return f"import {nix_value(self.folder / 'driver.nix')} {nix_value(arguments)}"

    def _job(self, job: EvalJob, number: int) -> dict[str, NixValue]:
        prepared = job.text is not None
        return {
            "id": number,
            "file": self.folder / f"j{number}.nix" if prepared else job.path.resolve(),
            "prepared": prepared,
            "system": job.system or self.nix.current_system,
            "buildPhase": job.build_phase or None,
        }

    def command(self, batch: Sequence[EvalJob], mark: str) -> list[str]:
        """Evaluation that reads only recipes and nixpkgs, downloads nothing, and builds nothing. An import of
        nixpkgs that names no system gets that of the recipes, which is the same for all of them."""
        search = [argument for path in self._readable_paths(batch) for argument in ("-I", str(path))]
        options = {
            "restrict-eval": "true",
            "allowed-uris": "",
            "allow-import-from-derivation": "false",
            "builders": "",
            "download-attempts": "2",
            "system": (not self.twin and batch[0].system) or self.nix.current_system,
        }
        chosen = [argument for name, value in options.items() for argument in ("--option", name, value)]
        mode = ["--read-write-mode"] if self.instantiate else []
        arguments = ["--eval", *mode, "--log-format", "internal-json", *chosen, *search]
        return self.nix.command("nix-instantiate", *arguments, "-E", self.expression(batch, mark))

    def _readable_paths(self, batch: Sequence[EvalJob]) -> Iterator[Path]:
        """Everything that these recipes may read."""
        yield self.folder
        yield from self.preparation.readable.entries(path for job in batch for path in job.reads)
        for tree in map(Path, dict.fromkeys(self.trees.values())):
            linked = tree.is_relative_to(self.folder)
            yield from (entry.resolve() for entry in tree.iterdir()) if linked else (tree,)
        for tarball in dict.fromkeys(tarball for job in batch for tarball in job.tarballs):
            path = self.downloads[tarball].path if tarball in self.downloads else ""
            if path:
                yield self.nix.store_file(path)

    def environment(self) -> dict[str, str]:
        """The collector works harder before it passes the limit."""
        heap = str(self.limits.memory * 15 // 16)
        return {**self.nix.environment(), "GC_MAXIMUM_HEAP_SIZE": heap}


def run_batch(
    session: Session, batch: Sequence[EvalJob], on_event: Callable[[EvalResult], None]
) -> list[EvalJob]:
    """Evaluate recipes in one process; returns those that another process must do."""
    worker = _Worker(session, batch)
    try:
        for result in worker.results():
            on_event(result)
    finally:
        worker.running.end()
    return worker.remaining()


class _Worker:
    def __init__(self, session: Session, batch: Sequence[EvalJob]) -> None:
        self.session, self.batch = session, batch
        self.mark = f"torchsmith-{secrets.token_hex(12)} "  # no recipe can guess it
        self.running = ChildProcess(
            session.command(batch, self.mark), stderr=subprocess.PIPE, env=session.environment()
        )
        self.finished: set[int] = set()
        self.current: EvalJob | None = None
        self.unfetched = ""  # the key of the last tarball that the current recipe needs and that failed
        self.began = time.monotonic()
        self.last_error: Mapping[str, Any] | None = None
        self.stray: list[str] = []

    def remaining(self) -> list[EvalJob]:
        return [job for job in self.batch if id(job) not in self.finished]

    def results(self) -> Iterator[EvalResult]:
        """Results as they come; ends when the process has, or when a limit was passed."""
        jobs = self.session.preparation.jobs
        for line in self.running.lines(POLL_SECONDS):
            message = self._own_message(line) if line is not None else None
            if message is not None and "start" in message:
                self.current, self.began = jobs[message["start"]], time.monotonic()
                self.unfetched = ""
            elif message is not None and "unfetched" in message:
                self.unfetched = message["unfetched"]
            elif message is not None:
                yield self._evaluated(jobs[message["done"]], message["report"])
            broken = self._broken_limit()
            if broken is not None:
                self.running.end()
                yield from self._over_limit(broken)
                return
        if self.running.wait() == 0 and not self.remaining():
            return
        if self._out_of_memory():
            yield from self._over_limit("memory")
        else:
            yield from self._failed()

    def _own_message(self, line: str) -> Mapping[str, Any] | None:
        """The message of our driver in a line of Nix's log, or None; an error is remembered."""
        event = parse_event(line)
        if event is None:
            self.stray.append(line)
            return None
        text = str(event.get("msg", ""))
        ours = text.removeprefix("trace: ")
        if event.get("action") != "msg" or event.get("level") != ERROR:
            return None
        if ours.startswith(self.mark):
            message: Mapping[str, Any] = msgspec.json.decode(ours.removeprefix(self.mark))
            return message
        if "raw_msg" in event or "error:" in text:
            self.last_error = event
        return None

    def _evaluated(self, job: EvalJob, report: Mapping[str, Any]) -> EvalResult:
        self.current = None
        if kind := report.get("not_a_derivation"):
            message = f"is not a package: it evaluates to a value of type {kind}"
            return self._ended(job, cause=Cause(message))
        evaluated = msgspec.convert(report, Evaluated)
        keeper = self.session.keeper
        if keeper is not None and self.session.instantiate and not keeper.keep([evaluated.drv_path]):
            gone = Cause("its derivation was collected as garbage while it was evaluated")
            return replace(self._ended(job, cause=gone), lost=True)
        return self._ended(job, evaluated)

    def _ended(
        self, job: EvalJob, evaluated: Evaluated | None = None, cause: Cause | None = None
    ) -> EvalResult:
        self.finished.add(id(job))
        seconds = time.monotonic() - self.began
        return EvalResult(job.name, job.path, seconds, evaluated, cause)

    def _broken_limit(self) -> str | None:
        limits = self.session.limits
        if self.current and time.monotonic() - self.began > limits.seconds:
            return "time"
        return "memory" if self.running.memory() > limits.memory else None

    def _over_limit(self, limit: str) -> Iterator[EvalResult]:
        """A recipe that exceeds the time fails, and one that exceeds the memory if it was the first of its
        process; otherwise it is evaluated again in a new one."""
        limits = self.session.limits
        if limit == "memory" and self.finished:
            return
        job = self.current or self.remaining()[0]
        message = f"takes too long: more than {limits.seconds:.0f} s"
        if limit == "memory":
            message = f"needs more than {limits.memory / (1 << 30):.1f} GiB"
        yield self._ended(job, cause=Cause(message, code="limit"))

    def _failed(self) -> Iterator[EvalResult]:
        if self.current is None:
            cause = cause_of(self.last_error) if self.last_error else shorten("\n".join(self.stray))
            hint = "torchsmith doctor checks Nix, its store and its daemon"
            raise Failed(f"Nix cannot evaluate anything: {cause.message}", hint=hint)
        job = self.current
        cause = cause_of(self.last_error) if self.last_error else self._died()
        if cause.where is not None:
            place = original(self.session.preparation, cause.where, self.session.folder)
            cause = replace(cause, where=place)
        downloads = {tarball.key: done for tarball, done in self.session.downloads.items()}
        failed = downloads.get(self.unfetched)
        if failed is None or failed.failure != (self.last_error or {}).get("raw_msg"):
            yield self._ended(job, cause=cause)
            return
        cause = cause if failed.wrong_hash else replace(cause, code="fetch")
        yield self._ended(job, cause=cause)
        # The tarball is missing for other recipes too.
        for other in self.remaining():
            if self.unfetched in {tarball.key for tarball in other.tarballs}:
                yield replace(self._ended(other, cause=cause), seconds=0.0)

    def _out_of_memory(self) -> bool:
        """Whether the garbage collector gave up at its limit; Nix or the collector itself reports it."""
        output = " ".join([*self.stray[-3:], str((self.last_error or {}).get("raw_msg", ""))])
        return any(sign in output for sign in ("Out of Memory", "out of memory", "Too many heap sections"))

    def _died(self) -> Cause:
        """A process that ended without an event: most often its stack or its memory was used up."""
        if self.running.wait() == -signal.SIGSEGV:
            return Cause("endless recursion (Nix ran out of stack)")
        if any(line.startswith("error:") for line in self.stray):
            return shorten("\n".join(self.stray))
        output = " ".join(self.stray[-3:])
        return Cause(f"Nix ended without a reason (exit code {self.running.wait()}) {output}".strip())
