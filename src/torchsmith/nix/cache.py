"""Results cached by content: the same recipe, files, nixpkgs and Nix give the same derivation."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from torchsmith.core.files import MAX_LOG_BYTES, cache_dir, read_bytes, write_atomic
from torchsmith.core.problem import MissingRequirement, Problem

FORMAT = 1  # raised when a cached result changes its meaning
DAY = 24 * 3600.0
KEPT_DAYS = 30  # without being used
T = TypeVar("T")


class Fingerprints:
    """Identities of files and folders, each worked out once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, place: str | Path) -> str:
        """A hash of a file's content, or of the names and contents of all files below a folder."""
        key = str(place)
        if key not in self._known:
            path, digest = Path(place), hashlib.sha256()
            for file in _files(path):
                digest.update(os.fsencode(f"{file.relative_to(path)}\0"))
                digest.update(hashlib.sha256(read_bytes(file, limit=MAX_LOG_BYTES)).digest())
            self._known[key] = digest.hexdigest()
        return self._known[key]

    def tree(self, path: Path) -> str:
        """A nixpkgs tree's path in the store, or a hash of the names, sizes and times of all its files."""
        resolved = os.path.realpath(path)
        if resolved.startswith("/nix/store/"):
            return resolved
        if resolved not in self._known:
            digest = hashlib.sha256(resolved.encode())
            for name, size, changed in _stats(resolved):
                digest.update(f"{name}\0{size}\0{changed}\n".encode())
            self._known[resolved] = digest.hexdigest()
        return self._known[resolved]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.is_file() and ".git" not in file.parts)


def _stats(root: str) -> Iterator[tuple[str, int, int]]:
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in (".git", "__pycache__"):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    about = entry.stat(follow_symlinks=False)
                    yield entry.path, about.st_size, about.st_mtime_ns


def key_of(parts: Mapping[str, str]) -> str:
    """One key for everything that a result depends on."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(parts.items()))
    return hashlib.sha256(os.fsencode(f"{FORMAT}\n{text}")).hexdigest()


class ResultCache:
    """One small file per result, in a folder of the cache; the time of a file is when it was last used."""

    def __init__(self, name: str | Path = "evaluations") -> None:
        try:
            self.root = cache_dir() / name
        except MissingRequirement:  # without a home there is nothing to read, and nothing is kept
            self.root = Path(os.devnull)

    def load(self, key: str, kind: type[T]) -> T | None:
        """The cached result; None if there is none, or a damaged one."""
        file = self._file(key)
        try:
            result = msgspec.json.decode(file.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            return None
        with suppress(OSError):  # a cache that can only be read is as good
            if _age(file) > DAY:
                os.utime(file)
        return result

    def keep(self, key: str, result: object) -> None:
        """Keep a result; a cache that cannot be written costs time, not correctness."""
        try:
            write_atomic(self._file(key), msgspec.json.encode(result).decode())
            self._sweep()
        except (Problem, OSError, UnicodeEncodeError):  # the last: a file name that is not text
            return

    def _sweep(self) -> None:
        """Once a day, remove results that were not used for KEPT_DAYS."""
        stamp = self.root / "swept"
        if stamp.exists() and _age(stamp) < DAY:
            return
        stamp.touch()
        for file in self.root.glob("??/*"):
            if _age(file) > KEPT_DAYS * DAY:
                file.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}.json"


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime
