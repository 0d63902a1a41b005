"""What happened in a workspace, by its record: last builds, verification and publishing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from torchsmith.core.files import MAX_LOG_BYTES, read_bytes
from torchsmith.core.problem import Problem
from torchsmith.core.secrets import redactor
from torchsmith.core.state import log_file, state_folder
from torchsmith.nix.prepare import source_hash
from torchsmith.record import Built, JobRow, Published, Record, VerificationRow, open_record
from torchsmith.record.database import FILE
from torchsmith.webpage.document import CellState, PageBuild
from torchsmith.workspace.checkout import RecipeFile

RUNS_READ = 10
TAIL_LINES, TAIL_LINES_FAILED = 6, 40  # of a log
LINE_CHARACTERS = 400  # of a line of a log
LOG_BYTES = 1 << 18  # that are read from a log's end
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class CellPast:
    """What happened to one cell."""

    state: CellState | None = None
    why: tuple[str, ...] = ()
    derivation: str = ""
    outputs: tuple[str, ...] = ()
    build: PageBuild | None = None
    verified: str = ""


@dataclass(frozen=True)
class PagePast:
    """A workspace's record, read once."""

    root: Path
    jobs: Mapping[str, JobRow] = field(default_factory=dict)  # the last attempt at each
    alive: int = 0  # the run that is at work
    built: Mapping[str, Built] = field(default_factory=dict)
    verdicts: Mapping[str, VerificationRow] = field(default_factory=dict)
    published: Mapping[str, Published] = field(default_factory=dict)

    def of(self, name: str, recipe: RecipeFile | None, derivation: str = "") -> CellPast:
        """What happened to a cell, and whether that was with the recipe as it is now."""
        job, built = self.jobs.get(name), self.built.get(name)
        build = self._build(job) if job else None
        if job and job.state == "running" and job.run == self.alive:
            return CellPast("building", (), job.key, build=build)
        later = built is None or (job is not None and (job.ended or 0) > built.at)
        if (
            later
            and built
            and job
            and job.key != built.derivation
            and not _changed(recipe, built, derivation)
        ):
            later = False  # another text of the recipe failed, and this one is what was built before
            build = None
        if job and job.state in ("failed", "skipped") and later:
            why = job.error or ("what it needs failed" if job.state == "skipped" else "")
            derivation = job.key if job.key.endswith(".drv") else ""
            return CellPast("failed", (why,) if why else (), derivation, build=build)
        if built is None or not built.outputs:
            return CellPast(build=build)
        past = CellPast("built", (), built.derivation, built.outputs, build)
        return self._with_verdict(past, name, recipe, built, derivation)

    def _with_verdict(
        self, past: CellPast, name: str, recipe: RecipeFile | None, built: Built, derivation: str
    ) -> CellPast:
        changed = _changed(recipe, built, derivation)
        if changed:
            return replace(past, state=None, why=(changed,))
        verdict = self.verdicts.get(built.name)
        published = self.published.get(name)
        verified = ""
        state: CellState = "published" if published else "built"
        if verdict is not None:
            verified = verdict.detail or ("it is what its name promises" if verdict.ok else "it is not right")
            if not verdict.ok:
                return replace(past, state="wrong", why=(f"its build is not right: {verified}",))
            state = "published" if published else "verified"
        why = (f"published to {published.org} from {published.revision[:12]}",) if published else ()
        return replace(past, state=state, why=why, verified=verified)

    def _build(self, job: JobRow) -> PageBuild:
        failed = job.state in ("failed", "lost")
        return PageBuild(
            run=job.run,
            state=job.state,
            started=job.started or 0.0,
            seconds=job.seconds,
            builder=job.builder,
            error=job.error,
            log=self._tail(job.log, TAIL_LINES_FAILED if failed else TAIL_LINES) if job.attempts else (),
        )

    def _tail(self, log: str, lines: int) -> tuple[str, ...]:
        """Return the last lines of a log of the workspace; no other file is read."""
        if not log:
            return ()
        try:
            path = log_file(self.root, log)
            data = read_bytes(path, limit=MAX_LOG_BYTES, links=False)[-LOG_BYTES:]
        except (Problem, OSError):
            return ()
        plain = ESCAPES.sub("", data.decode(errors="replace").replace("\r", "\n"))
        redact = redactor()
        tail = [redact(line)[:LINE_CHARACTERS] for line in plain.split("\n") if line.strip()]
        return tuple(tail[-lines:])


def _changed(recipe: RecipeFile | None, built: Built, derivation: str) -> str:
    """Return why a build is not the recipe's: by derivation if it is known, otherwise by text."""
    if recipe is None:
        return "it was built, and its recipe is gone"
    if derivation and built.derivation:
        return "" if derivation == built.derivation else "its derivation changed since it was built"
    if built.source and source_hash(recipe.path) != built.source:
        return "its recipe, or a file that it reads, changed since it was built"
    return ""


def read_past(root: Path, notes: list[str]) -> PagePast:
    """Return the record of a folder; an empty one, with a note, if it cannot be read."""
    try:
        file = state_folder(root) / FILE
        if not file.is_file():
            return PagePast(root)
        record = open_record(root, read_only=True)
    except Problem as problem:
        notes.append(f"{FILE}: {problem.message}")
        return PagePast(root)
    with closing(record):
        try:
            return _read(root, record)
        except (Problem, msgspec.MsgspecError, ValueError) as error:
            notes.append(f"{FILE} cannot be read: {error}")
            return PagePast(root)


def _read(root: Path, record: Record) -> PagePast:
    runs = record.runs(RUNS_READ)
    jobs: dict[str, JobRow] = {}
    for run in runs:
        for job in record.jobs(run.id):
            if job.attempts or job.state == "skipped":
                jobs.setdefault(job.name, job)
    published = {row.name: row for row in reversed(record.published())}  # the newest counts
    built = {row.name: row for row in record.all_built()}
    verdicts = {
        build.name: row
        for build in built.values()
        if build.outputs and (row := record.verdict(build.outputs[0], build.derivation, build.name))
    }
    alive = runs[0].id if runs and runs[0].state == "running" and runs[0].alive else 0
    return PagePast(root, jobs, alive, built, verdicts, published)
