"""The record on disk: one SQLite file in the state folder of a workspace, whole after a kill at any moment.
Every error names the file and what to do about it, and reading changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import time
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from torchsmith.core.files import read_text
from torchsmith.core.problem import Failed, Problem
from torchsmith.core.state import make_state_folder, state_folder
from torchsmith.record.estimate import Past
from torchsmith.record.rows import Attempt, Built, JobRow, Published, RunRow, RunState, VerificationRow

FILE = "record.sqlite"
FORMAT = 6
SCHEMA = Path(__file__).with_name("schema.sql")
AS_JSON = frozenset(("selection", "nixpkgs", "targets", "outputs"))  # columns
LATEST_TIME = 1e11  # seconds: the year 5138
T = TypeVar("T")
TRY_AGAIN = (
    "its folder must be writable for you and have space, and another torchsmith may be writing: fix this and"
    " try again; what was built is in the Nix store"
)
START_AGAIN = (
    "it is damaged: keep a copy, save what can be read with `sqlite3 FILE .recover`, and move it away"
    " to start a new one; what is in the Nix store stays there"
)


def record_problem(path: Path, error: Exception) -> Problem:
    """An error of SQLite or the system as a Problem."""
    usable = isinstance(error, OSError | sqlite3.OperationalError)
    hint = TRY_AGAIN if usable else START_AGAIN
    return Failed(f"cannot use the build record {path}: {error}", hint=hint)


def _copy(path: Path) -> sqlite3.Connection:
    """The file's content in memory; without write access SQLite must know that no other process writes."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    if not path.exists():
        return memory
    try:
        _load(path, "mode=ro", memory)
    except sqlite3.OperationalError:
        _load(path, "immutable=1", memory)
    return memory


def _load(path: Path, way: str, into: sqlite3.Connection) -> None:
    address = f"file:{quote(str(path.absolute()))}?{way}"
    with closing(sqlite3.connect(address, uri=True, timeout=30)) as source:
        source.backup(into)


def open_record(root: Path, *, read_only: bool = False) -> Record:
    """The record of the workspace at `root`, made if there is none; `read_only` touches no file."""
    folder = state_folder(root) if read_only else make_state_folder(root)
    return Record(folder / FILE, read_only=read_only)


class Record:
    """Everything that is written down about builds. Each method is one transaction; every error is a Problem.
    `read_only` works on a copy in memory, wherever the file is."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            if read_only:
                self._connection = _copy(path)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._connection.row_factory = sqlite3.Row
        except (sqlite3.Error, OSError) as error:
            raise record_problem(path, error) from error
        self.read_only = read_only
        if not read_only:
            self._execute("pragma journal_mode = wal")
        self._create()

    def close(self) -> None:
        self._connection.close()

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """All rows of an answer, read at once, so that damage shows here and not later."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise record_problem(self.path, error) from error

    def _create(self) -> None:
        """The tables, if the file is new. Raises Failed for a record of another torchsmith."""
        with self._transaction():
            version = int(self._execute("pragma user_version")[0][0])
            if version not in (0, FORMAT):
                message = f"{self.path} was written by another torchsmith (format {version}, here {FORMAT})"
                raise Failed(message, hint="use that torchsmith, or move the file away to start a new record")
            if version == 0:
                for statement in filter(str.strip, read_text(SCHEMA).split(";")):
                    self._execute(statement)
                self._execute(f"pragma user_version = {FORMAT}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("begin immediate")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk has rolled it back already
                self._execute("rollback")
            raise
        self._execute("commit")

    def start_run(self, backend: str, selection: Sequence[str], nixpkgs: Sequence[str] = ()) -> int:
        """A new run; what an earlier one left running is lost, and says so."""
        with self._transaction():
            self._execute("update runs set state = 'stopped' where state = 'running'")
            self._execute("update jobs set state = 'lost' where state = 'running'")
            self._put(
                "runs",
                started=time(),
                state="running",
                backend=backend,
                selection=list(selection),
                nixpkgs=list(nixpkgs),
                process=os.getpid(),
            )
            return int(self._execute("select last_insert_rowid()")[0][0])

    def add_jobs(self, jobs: Iterable[JobRow]) -> None:
        """Write down what a run has to do."""
        with self._transaction():
            for job in jobs:
                self._put("jobs", **msgspec.structs.asdict(job))

    def job_started(self, run: int, key: str, cores: int) -> None:
        """A job was handed to the backend."""
        self._execute(
            "update jobs set state = 'running', attempts = attempts + 1, started = ?, ended = null,"
            " cores = ? where run = ? and key = ?",
            (time(), cores, run, key),
        )

    def job_ended(self, run: int, key: str, attempt: Attempt) -> None:
        """An attempt at a job is over."""
        ended = attempt.state, time(), _stored(attempt.outputs)
        self._execute(
            "update jobs set state = ?, ended = ?, outputs = ?, builder = ?, error = ?"
            " where run = ? and key = ?",
            (*ended, attempt.builder, attempt.error, run, key),
        )

    def end_run(self, run: int, state: RunState) -> None:
        self._execute("update runs set state = ?, ended = ? where id = ?", (state, time(), run))

    def runs(self, limit: int = 20) -> list[RunRow]:
        """The last runs, newest first."""
        return self._all(RunRow, "select * from runs order by id desc limit ?", limit)

    def jobs(self, run: int) -> list[JobRow]:
        """The jobs of a run, in the order in which they were planned."""
        return self._all(JobRow, "select * from jobs where run = ? order by rowid", run)

    def history(self, name: str = "") -> list[JobRow]:
        """The last attempts that ended, newest first; of one job if it is named."""
        query = "select * from jobs where ended is not null and (? = '' or name = ?)"
        return self._all(JobRow, f"{query} order by run desc, ended desc limit 50", name, name)

    def past(self) -> list[Past]:
        """Builds that succeeded, and what rehearsals say of others, for estimates."""
        what = "select name, package, gpu, system, cores"
        done = "state = 'done' and ended > started"  # a clock may have gone back
        return [
            *self._all(Past, f"{what}, ended - started as seconds from jobs where {done} order by ended"),
            *self._all(Past, f"{what}, seconds, 1 as rehearsed from rehearsed order by at"),
        ]

    def note_rehearsed(self, derivation: str, says: Past) -> None:
        """What a rehearsal says that a build would take."""
        own = msgspec.structs.asdict(says)
        del own["rehearsed"]
        self._put("rehearsed", **own, derivation=derivation, at=time())

    def last_job(self, name: str, *, started: bool = False) -> JobRow | None:
        """The newest row of a job; if `started`, of one that has a log."""
        query = "select * from jobs where name = ? and attempts >= ? order by run desc limit 1"
        return next(iter(self._all(JobRow, query, name, int(started))), None)

    def logged_names(self) -> list[str]:
        """Every job that was ever started."""
        rows = self._execute("select distinct name from jobs where attempts > 0 order by name")
        return [str(row[0]) for row in rows]

    def note_verdict(self, verdict: VerificationRow) -> None:
        """Write down what verification said about an output; the newest counts."""
        self._put("verdicts", **msgspec.structs.asdict(verdict) | {"at": time()})

    def verdict(self, output: str, derivation: str, name: str) -> VerificationRow | None:
        """The verdict on an output, as the build of a derivation under a name."""
        query = "select * from verdicts where output = ? and derivation = ? and name = ?"
        return next(iter(self._all(VerificationRow, query, output, derivation, name)), None)

    def note_built(self, built: Built) -> None:
        """Write down that a recipe's results are in the store."""
        self._put("built", **msgspec.structs.asdict(built) | {"at": time()})

    def built(self, name: str) -> Built | None:
        """The newest build of a recipe."""
        return next(iter(self.builds(name)), None)

    def builds(self, name: str) -> list[Built]:
        """Every build of a recipe, the last that was written first."""
        return self._all(Built, "select * from built where name = ? order by rowid desc", name)

    def all_built(self) -> list[Built]:
        """The newest build of every recipe."""
        rows = self._all(Built, "select * from built order by rowid")
        return list({row.name: row for row in rows}.values())

    def note_proved(self, hashes: Mapping[str, str]) -> None:
        """Sources whose hash was seen to be right."""
        with self._transaction():
            for source, proved in hashes.items():
                self._put("proved", source=source, hash=proved, at=time())

    def proved(self) -> dict[str, str]:
        """Hashes by the source that they were proved for."""
        return {str(row[0]): str(row[1]) for row in self._execute("select source, hash from proved")}

    def note_published(self, name: str, org: str, revision: str) -> None:
        self._put("published", name=name, org=org, revision=revision, at=time())

    def published(self) -> list[Published]:
        """Packages that were published, newest first."""
        return self._all(Published, "select * from published order by at desc")

    def _put(self, table: str, **columns: object) -> None:
        """Write a row, in place of one with the same key."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        statement = f"insert or replace into {table} ({names}) values ({marks})"
        self._execute(statement, [_stored(value) for value in columns.values()])

    def _all(self, kind: type[T], query: str, *values: object) -> list[T]:
        """What a query finds, as values."""
        return [self._typed(row, kind) for row in self._execute(query, values)]

    def _typed(self, row: sqlite3.Row, kind: type[T]) -> T:
        """A row as a value; some columns hold JSON, and SQLite's 0 and 1 are no and yes."""
        data: dict[str, Any] = dict(row)
        try:
            if any(isinstance(value, float) and not abs(value) < LATEST_TIME for value in data.values()):
                raise ValueError("a time that never comes")
            data |= {name: json.loads(data[name]) for name in AS_JSON & data.keys()}
            return msgspec.convert(data, kind, strict=False)
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            raise record_problem(self.path, error) from error


def _stored(value: object) -> object:
    """A value as a column holds it: what SQLite has no type for as JSON."""
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
