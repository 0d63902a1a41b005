"""Building: with Nix one `nix-store --realise` a job, its events read as they come; with Flox one `flox build
NAME`, its result links compared with those from before."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchsmith.building.events import JobBuilding, JobPhase, JobSteps, RunNote
from torchsmith.building.farm import Builder, able, machines_option
from torchsmith.building.job import Job, OnEvent, Outcome
from torchsmith.building.processes import LogFile, Processes
from torchsmith.core.problem import MissingRequirement
from torchsmith.core.process import find
from torchsmith.nix.derivation import name_of
from torchsmith.nix.errors import shorten
from torchsmith.nix.log import Building, Failure, LogEvent, LogLine, LogPhase, LogReader
from torchsmith.nix.store import StoreOptions, realise_command
from torchsmith.nix.tool import Nix

UNREACHABLE = re.compile(r"^cannot build on '([^']*)': (?:error: )?(.*)")
SIGNALLED = re.compile(r"^(?:error: )?builder for '[^']+' failed due to signal (?:9|15)\b")
NINJA = re.compile(r"^\[(\d+)/(\d+)\] ")
# A builder that hangs or loses its network is noticed after some minutes; one that takes connections and says
# nothing, after some seconds. Of two values ssh takes the first, so the user's NIX_SSHOPTS count.
KEEP_ALIVE = "-o ConnectTimeout=20 -o ServerAliveInterval=30 -o ServerAliveCountMax=6"
Link = tuple[str, int]  # what a link points to, and when it was made


@dataclass
class NixBackend:
    """Hands derivations to Nix, with the builders that can build them; Nix decides where."""

    nix: Nix
    options: StoreOptions
    results: Path  # links that keep results from being collected
    roots: Path  # the same for what jobs share, for the duration of a run
    builders: Sequence[Builder] = ()
    _unreachable: set[str] = field(default_factory=set)  # unreachable builders that were reported
    _processes: Processes = field(default_factory=Processes)

    def command(self, job: Job, cores: int) -> list[str]:
        options = self.options
        if self.builders:
            capable = able(self.builders, job)
            here = any(not builder.address for builder in capable)
            options = replace(
                options, builders=machines_option(capable), max_jobs=options.max_jobs if here else 0
            )
        shared = self.roots / Path(job.key).name.removesuffix(".drv")
        root = self.results / job.recipes[0] if job.recipes else shared
        return realise_command(self.nix, job.targets, options, cores=cores, root=root)

    def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome:
        """Run Nix to its end, write the log and report phases and steps."""
        reader, events = LogReader(), _JobEvents(job, on_event, self._unreachable)
        env = self.nix.environment()
        env["NIX_SSHOPTS"] = f"{env.get('NIX_SSHOPTS', '')} {KEEP_ALIVE}".strip()

        def read_line(line: str) -> None:
            for event in reader.read(line):
                _write(file, event, job)
                events.take(event)

        with closing(LogFile(log)) as file:
            code = self._processes.run(self.command(job, cores), env, read_line)
        note = self._root_others(job) if code == 0 else ""
        return Outcome(code == 0, job.outputs, events.builder, code < 0 or events.killed, file.lost, note)

    def _root_others(self, job: Job) -> str:
        """Root a derivation for each further recipe that has it. Returns why that failed, or nothing."""
        for name in job.recipes[1:]:
            done = self.nix.run(
                realise_command(self.nix, job.targets, self.options, root=self.results / name)
            )
            if not done.ok:
                return f"{name} is not kept from being collected: {shorten(done.stderr).message}"
        return ""

    def stop(self) -> None:
        self._processes.stop()


@dataclass
class _JobEvents:
    """A job's events from Nix's: the last builder counts, and steps of the job's own build."""

    job: Job
    on_event: OnEvent
    unreachable: set[str]
    builder: str = ""
    killed: bool = False
    total: int = 0  # of the largest ninja run so far: what CMake tries meanwhile is not progress of the build

    def take(self, event: LogEvent) -> None:
        key = self.job.key
        match event:
            case Building(derivation, builder):
                if derivation in self.job.targets:
                    self.builder = builder
                self.on_event(JobBuilding(job=key, derivation=name_of(derivation), builder=builder))
            case LogPhase(derivation, phase):
                self.on_event(JobPhase(job=key, derivation=name_of(derivation), phase=phase))
            case LogLine(derivation, text) if derivation in self.job.targets and (steps := NINJA.match(text)):
                if (total := int(steps[2])) >= self.total:
                    self.total = total
                    self.on_event(JobSteps(job=key, done=int(steps[1]), total=total))
            case Failure(text) | LogLine(_, text) if SIGNALLED.search(text):
                self.killed = True
            case LogLine("", text) if match := UNREACHABLE.match(text):
                if match[1] not in self.unreachable:
                    self.unreachable.add(match[1])
                    self.on_event(RunNote(detail=f"{match[1]} takes no builds: {match[2].splitlines()[0]}"))
            case _:
                pass


def _write(file: LogFile, event: LogEvent, job: Job) -> None:
    """A log that reads like Nix' own: other builds' lines carry their name."""
    match event:
        case LogLine(derivation, text):
            own = derivation in job.targets or not derivation
            file.write(f"{text}\n" if own else f"{name_of(derivation)}> {text}\n")
        case Building(derivation, builder):
            file.write(f"building {name_of(derivation)}{f' on {builder}' if builder else ''}\n")
        case Failure(text):
            file.write(f"{text}\n")
        case LogPhase():
            return


def require_flox(instead: str = "") -> Path:
    """The path of flox. Raises MissingRequirement, with `instead` in its hint."""
    program = find("flox")
    if program is None:
        hint = f"install Flox{f', or {instead}' if instead else ''}"
        raise MissingRequirement("Flox is not installed, and this needs it", hint=hint)
    return program


@dataclass
class FloxBackend:
    """Flox builds a repository's packages one after the other, so each repository has one job at a time."""

    root: Path  # the workspace
    program: Path = Path("flox")
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _processes: Processes = field(default_factory=Processes)

    def command(self, job: Job, cores: int) -> list[str]:
        stability = ["--stability", job.stability] if job.stability else []
        return [str(self.program), "build", "-d", str(self.root / job.repo), *stability, *job.targets]

    def build(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> Outcome:
        """Build. A new result link counts as success, whatever the exit code is."""
        with self._repository(job.repo):
            before = self.links(job)
            code = self._run(job, cores, log, on_event)
            after = self.links(job)
        fresh = bool(after) and after != before
        outputs = tuple(target for target, _ in after.values())
        if code == 0:
            return Outcome(bool(after), outputs, note="" if after else "flox left no result link")
        if fresh:
            return Outcome(True, outputs, note=f"flox ended with {code} after it had linked a new result")
        return Outcome(False)

    def links(self, job: Job) -> dict[str, Link]:
        """The result links of a package by name, `result-NAME` first, without its log."""
        folder = self.root / job.repo
        first = f"result-{job.targets[0]}"
        links: dict[str, Link] = {}
        for path in sorted(folder.glob(f"{first}*")):
            named = path.name == first or path.name.startswith(f"{first}-")
            if named and path.is_symlink() and path.name != f"{first}-log":
                links[path.name] = (str(path.readlink()), path.lstat().st_mtime_ns)
        return links

    def _repository(self, repo: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(repo, threading.Lock())

    def _run(self, job: Job, cores: int, log: Path, on_event: OnEvent) -> int:
        def read_line(line: str) -> None:
            file.write(f"{line}\n")
            if steps := NINJA.search(line.partition("> ")[2] or line):
                on_event(JobSteps(job=job.key, done=int(steps[1]), total=int(steps[2])))

        # Flox has no option for cores; the Nix that it runs takes them from here.
        config = f"{os.environ.get('NIX_CONFIG', '')}\ncores = {cores}\n"
        with closing(LogFile(log)) as file:
            env = os.environ | {"NIX_CONFIG": config}
            return self._processes.run(self.command(job, cores), env, read_line, both=True)

    def stop(self) -> None:
        self._processes.stop()
