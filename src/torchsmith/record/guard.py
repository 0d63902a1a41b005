"""SQLite with words: every error names the file and what to do about it, and reading changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from torchsmith.edge.problem import Failed, Problem

# What SQLite says, and what helps; the first that fits.
CURES = (
    (("disk is full", "No space left"), "free some space there; what was built is in the Nix store"),
    (("Permission denied", "Read-only", "readonly", "unable to open"), "make the folder writable for you"),
    (("locked",), "another torchsmith is writing; try again"),
    (("newer torchsmith",), "use that torchsmith"),
    (
        ("",),
        "it is damaged: keep a copy, save what can be read with `sqlite3 FILE .recover`, and move it away"
        " to start a new one; what is in the Nix store stays there",
    ),
)


def trouble(path: Path, error: Exception) -> Problem:
    """An error of SQLite or the system as a Problem."""
    words = str(error)
    cure = next(cure for signs, cure in CURES if any(sign in words for sign in signs))
    return Failed(f"cannot use the record {path}: {words}", hint=cure)


class Rows(list[sqlite3.Row]):
    """All rows of an answer, read at once, so that damage shows here and not later."""

    lastrowid: int | None = None

    def fetchone(self) -> sqlite3.Row | None:
        return self[0] if self else None


class Database:
    """A connection whose errors are Problems; `read_only` works on a copy in memory, wherever the file is."""

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
            raise trouble(path, error) from error

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        try:
            cursor = self._connection.execute(statement, values)
            found = Rows(cursor.fetchall())
        except (sqlite3.Error, OSError) as error:
            raise trouble(self.path, error) from error
        found.lastrowid = cursor.lastrowid
        return found

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        self._connection.close()


def _copy(path: Path) -> sqlite3.Connection:
    """The file's content in memory; without a right to write, SQLite must be told that nobody else writes."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    if not path.exists():
        return memory
    try:
        _load(path, "mode=ro", memory)
    except sqlite3.OperationalError:
        _load(path, "immutable=1", memory)
    return memory


def _load(path: Path, way: str, into: sqlite3.Connection) -> None:
    source = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{way}", uri=True, timeout=30)
    try:
        source.backup(into)
    finally:
        source.close()
