"""Building with Flox: one `flox build NAME` a job, and its result links told from those of an older build."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.build.events import JobSteps
from torchsmith.build.job import Job, Outcome, Tell
from torchsmith.build.processes import LogFile, Processes
from torchsmith.edge.problem import Lacking
from torchsmith.edge.process import find
from torchsmith.nix.log import NINJA

Link = tuple[str, int]  # what a link points to, and when it was made


def require_flox(instead: str = "") -> Path:
    """Where flox is, or a Problem that says what would do instead."""
    program = find("flox")
    if program is None:
        hint = f"install Flox{f', or {instead}' if instead else ''}"
        raise Lacking("Flox is not installed, and this needs it", hint=hint)
    return program


@dataclass
class FloxBackend:
    """Flox builds a repository's packages one after the other, so each repository has one job at a time."""

    root: Path  # the workspace
    program: Path = Path("flox")
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _processes: Processes = field(default_factory=Processes)

    @property
    def name(self) -> str:
        return "flox"

    def command(self, job: Job, cores: int) -> list[str]:
        stability = ["--stability", job.stability] if job.stability else []
        return [str(self.program), "build", "-d", str(self.root / job.repo), *stability, *job.targets]

    def build(self, job: Job, cores: int, log: Path, tell: Tell) -> Outcome:
        """Build, then believe the link rather than the exit code."""
        with self._repository(job.repo):
            before = self.links(job)
            code = self._run(job, cores, log, tell)
            after = self.links(job)
        fresh = bool(after) and after != before
        outputs = tuple(target for target, _ in after.values())
        if code == 0:
            return Outcome(bool(after), outputs, note="" if after else "flox left no result link")
        if fresh:
            return Outcome(True, outputs, note=f"flox ended with {code} after it had linked a new result")
        return Outcome(False)

    def links(self, job: Job) -> dict[str, Link]:
        """The result links of a package by name, `result-NAME` first; its log is none of them."""
        folder = self.root / job.repo
        first = f"result-{job.targets[0]}"
        found: dict[str, Link] = {}
        for path in sorted(folder.glob(f"{first}*")):
            named = path.name == first or path.name.startswith(f"{first}-")
            if named and path.is_symlink() and path.name != f"{first}-log":
                found[path.name] = (str(path.readlink()), path.lstat().st_mtime_ns)
        return found

    def _repository(self, repo: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(repo, threading.Lock())

    def _run(self, job: Job, cores: int, log: Path, tell: Tell) -> int:
        def hear(line: str) -> None:
            file.write(f"{line}\n")
            if steps := NINJA.search(line.partition("> ")[2] or line):
                tell(JobSteps(job=job.key, done=int(steps[1]), total=int(steps[2])))

        # Flox has no option for cores; the Nix that it runs takes them from here.
        config = f"{os.environ.get('NIX_CONFIG', '')}\ncores = {cores}\n"
        with closing(LogFile(log)) as file:
            env = os.environ | {"NIX_CONFIG": config}
            return self._processes.run(self.command(job, cores), env, hear, both=True)

    def stop(self) -> None:
        self._processes.stop()
