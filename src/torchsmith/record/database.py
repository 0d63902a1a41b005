"""The record on disk: one SQLite file below the workspace, whole after a kill at any moment."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from torchsmith.edge.clock import Clock, SystemClock
from torchsmith.record.estimate import Past
from torchsmith.record.guard import Database, trouble
from torchsmith.record.rows import (
    Attempt,
    Built,
    JobRow,
    Published,
    RunRow,
    RunState,
    VerificationRow,
)

FILE = "record.sqlite"
# What brings a file from each format to the next; the number of steps is the format.
FIRST = """
create table runs (
  id integer primary key, started real not null, ended real, state text not null, backend text not null,
  selection text not null, options text not null, process integer not null
);
create table jobs (
  run integer not null references runs(id), key text not null, name text not null, package text not null,
  gpu integer not null, system text not null, targets text not null, state text not null,
  attempts integer not null default 0, started real, ended real, cores integer not null default 0,
  builder text not null default '', outputs text not null default '[]', error text not null default '',
  log text not null default '', primary key (run, key)
);
create index jobs_by_name on jobs(name, state);
create table verdicts (
  output text primary key, name text not null, ok integer not null, detail text, at real
);
create table proved (source text primary key, hash text not null, at real not null);
create table published (
  name text not null, org text not null, revision text not null, at real not null,
  primary key (name, org, revision)
);
"""
BUILT = """
create table built (
  name text not null, derivation text not null, source text not null, revision text not null,
  outputs text not null, at real not null, primary key (name, derivation, source)
);
insert or replace into built
  select name, key, '', '', outputs, ended from jobs
  where state = 'done' and key like '%.drv' and outputs != '[]' order by ended;
alter table verdicts add column derivation text not null default '';
"""
REHEARSED = """
create table rehearsed (
  name text not null, derivation text not null, package text not null, gpu integer not null,
  system text not null, cores integer not null, seconds real not null, at real not null,
  primary key (name, derivation)
);
"""
STEPS = (FIRST, BUILT, REHEARSED)
FORMAT = len(STEPS)
LATEST = 1e11  # seconds: the year 5138
T = TypeVar("T")


def open_record(root: Path, clock: Clock | None = None, *, read_only: bool = False) -> Record:
    """The record of the workspace at `root`, made where there is none; `read_only` touches no file."""
    return Record(root / ".torchsmith" / FILE, clock or SystemClock(), read_only=read_only)


class Record:
    """Everything that is written down about builds. Each method is one transaction."""

    def __init__(self, path: Path, clock: Clock, *, read_only: bool = False) -> None:
        self.path = path
        self._clock = clock
        self._db = Database(path, read_only=read_only)
        if not read_only:
            self._db.execute("pragma journal_mode = wal")
        self._bring_up_to_date()

    def close(self) -> None:
        self._db.close()

    def _bring_up_to_date(self) -> None:
        with self._transaction():
            found = int(self._db.execute("pragma user_version")[0][0])
            if found > FORMAT:
                words = f"it was written by a newer torchsmith (format {found})"
                raise trouble(self.path, sqlite3.DatabaseError(words))
            if found < FORMAT:
                for statement in filter(str.strip, ";".join(STEPS[found:]).split(";")):
                    self._db.execute(statement)
                self._db.execute(f"pragma user_version = {FORMAT}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk has rolled it back already
                self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def start_run(self, backend: str, selection: Sequence[str], options: Mapping[str, str]) -> int:
        """A new run; what an earlier one left running is lost, and says so."""
        with self._transaction():
            self._db.execute("update runs set state = 'stopped' where state = 'running'")
            self._db.execute("update jobs set state = 'lost' where state = 'running'")
            return self._put(
                "runs",
                started=self._clock.now(),
                state="running",
                backend=backend,
                selection=list(selection),
                options=dict(options),
                process=os.getpid(),
            )

    def add_jobs(self, jobs: Iterable[JobRow]) -> None:
        """Write down what a run has to do."""
        with self._transaction():
            for job in jobs:
                self._put("jobs", **msgspec.structs.asdict(job))

    def job_started(self, run: int, key: str, cores: int) -> None:
        """A job was handed to the backend."""
        self._db.execute(
            "update jobs set state = 'running', attempts = attempts + 1, started = ?, ended = null,"
            " cores = ? where run = ? and key = ?",
            (self._clock.now(), cores, run, key),
        )

    def job_ended(self, run: int, key: str, attempt: Attempt) -> None:
        """An attempt at a job is over."""
        ended = attempt.state, self._clock.now(), _stored(attempt.outputs)
        self._db.execute(
            "update jobs set state = ?, ended = ?, outputs = ?, builder = ?, error = ?"
            " where run = ? and key = ?",
            (*ended, attempt.builder, attempt.error, run, key),
        )

    def end_run(self, run: int, state: RunState) -> None:
        self._db.execute("update runs set state = ?, ended = ? where id = ?", (state, self._clock.now(), run))

    def runs(self, limit: int = 20) -> list[RunRow]:
        """The last runs, newest first."""
        found = self._db.execute("select * from runs order by id desc limit ?", (limit,))
        return [self._typed(row, RunRow, ("selection", "options")) for row in found]

    def jobs(self, run: int) -> list[JobRow]:
        """The jobs of a run, in the order in which they were planned."""
        found = self._db.execute("select * from jobs where run = ? order by rowid", (run,))
        return [self._job(row) for row in found]

    def unfinished(self) -> RunRow | None:
        """The last run, where it left something undone."""
        last = next(iter(self.runs(1)), None)
        return last if last is not None and last.state != "done" else None

    def history(self, name: str = "", limit: int = 50) -> list[JobRow]:
        """Attempts that ended, newest first; of one job where it is named."""
        found = self._db.execute(
            "select * from jobs where ended is not null and (? = '' or name = ?)"
            " order by run desc, ended desc limit ?",
            (name, name, limit),
        )
        return [self._job(row) for row in found]

    def past(self) -> list[Past]:
        """Builds that succeeded, and what rehearsals say of others, for estimates."""
        found = self._db.execute(
            "select name, package, gpu, system, cores, ended - started as seconds, 0 as rehearsed from jobs"
            " where state = 'done' and ended > started order by ended"  # a clock may have gone back
        )
        rehearsed = self._db.execute(
            "select name, package, gpu, system, cores, seconds, 1 as rehearsed from rehearsed order by at"
        )
        return [self._typed(row, Past, ()) for row in (*found, *rehearsed)]

    def note_rehearsed(self, derivation: str, says: Past) -> None:
        """What a rehearsal says that a build would take."""
        own = msgspec.structs.asdict(says)
        del own["rehearsed"]
        self._put("rehearsed", **own, derivation=derivation, at=self._clock.now())

    def last_log(self, name: str) -> JobRow | None:
        """The newest row of a job that has a log."""
        found = self._db.execute(
            "select * from jobs where name = ? and attempts > 0 order by run desc limit 1", (name,)
        ).fetchone()
        return self._job(found) if found else None

    def logged_names(self) -> list[str]:
        """Every job that was ever started."""
        found = self._db.execute("select distinct name from jobs where attempts > 0 order by name")
        return [str(row[0]) for row in found]

    def note_verdict(self, verdict: VerificationRow) -> None:
        """Write down what verification said about an output; the newest word counts."""
        self._put("verdicts", **msgspec.structs.asdict(verdict) | {"at": self._clock.now()})

    def verdict(self, output: str) -> VerificationRow | None:
        found = self._db.execute("select * from verdicts where output = ?", (output,)).fetchone()
        return self._typed(found, VerificationRow, ()) if found else None

    def note_built(self, built: Built) -> None:
        """Write down that a recipe's results are in the store, whoever put them there."""
        self._put("built", **msgspec.structs.asdict(built) | {"at": self._clock.now()})

    def built(self, name: str) -> Built | None:
        """The newest build of a recipe: the last that was written down, whatever the clock said."""
        found = self._db.execute(
            "select * from built where name = ? order by rowid desc limit 1", (name,)
        ).fetchone()
        return self._typed(found, Built, ("outputs",)) if found else None

    def all_built(self) -> list[Built]:
        """The newest build of every recipe."""
        found = self._db.execute("select * from built order by rowid")
        return list({row["name"]: self._typed(row, Built, ("outputs",)) for row in found}.values())

    def note_proved(self, hashes: Mapping[str, str]) -> None:
        """Sources whose hash was seen to be right."""
        with self._transaction():
            for source, proved in hashes.items():
                self._put("proved", source=source, hash=proved, at=self._clock.now())

    def proved(self) -> dict[str, str]:
        """Hashes by the source that they were proved for."""
        return {str(row[0]): str(row[1]) for row in self._db.execute("select source, hash from proved")}

    def note_published(self, name: str, org: str, revision: str) -> None:
        self._put("published", name=name, org=org, revision=revision, at=self._clock.now())

    def published(self) -> list[Published]:
        """Packages that were published, newest first."""
        found = self._db.execute("select * from published order by at desc")
        return [self._typed(row, Published, ()) for row in found]

    def _put(self, table: str, **columns: object) -> int:
        """Write a row, in place of one with the same key; its number."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        words = f"insert or replace into {table} ({names}) values ({marks})"
        done = self._db.execute(words, [_stored(value) for value in columns.values()])
        return int(done.lastrowid or 0)

    def _job(self, row: sqlite3.Row) -> JobRow:
        return self._typed(row, JobRow, ("targets", "outputs"))

    def _typed(self, row: sqlite3.Row, kind: type[T], as_json: Sequence[str]) -> T:
        """A row as a value; columns in `as_json` hold JSON, and SQLite's 0 and 1 stand for no and yes."""
        data: dict[str, Any] = dict(row)
        try:
            if any(isinstance(value, float) and not abs(value) < LATEST for value in data.values()):
                raise ValueError("a time that never comes")
            for column in as_json:
                data[column] = json.loads(data[column])
            return msgspec.convert(data, kind, strict=False)
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            raise trouble(self.path, error) from error


def _stored(value: object) -> object:
    """A value as a column holds it: what SQLite has no type for as JSON."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
