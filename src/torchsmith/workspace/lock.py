"""Which nixpkgs a flake is locked to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem

LOCK = "flake.lock"


class LockedNixpkgs(NamedTuple):
    """A nixpkgs of a flake.lock; `modified` is its date in seconds, 0 if that is not recorded."""

    rev: str
    modified: int


def locked_nixpkgs(file: Path) -> tuple[LockedNixpkgs, ...]:
    """Every nixpkgs of the nearest flake.lock at or above a file's folder and within its repository."""
    for folder in file.absolute().parents:
        if (lock := folder / LOCK).is_file():
            return _read(lock, lock.stat().st_mtime_ns)
        if (folder / ".git").exists():
            break
    return ()


@lru_cache(maxsize=64)
def _read(lock: Path, changed: int) -> tuple[LockedNixpkgs, ...]:
    try:
        table = json.loads(read_text(lock))
        return tuple(_nixpkgs_inputs(table["nodes"], table["root"]))
    except (Problem, ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return ()


def _nixpkgs_inputs(nodes: Any, root: str) -> Iterator[LockedNixpkgs]:
    """The inputs of a flake that are a nixpkgs by their name."""
    for name, node in nodes[root].get("inputs", {}).items():
        locked = nodes[node]["locked"] if isinstance(node, str) else {}
        rev, modified = locked.get("rev"), locked.get("lastModified")
        if "nixpkgs" in name.lower() and isinstance(rev, str):
            yield LockedNixpkgs(rev, modified if isinstance(modified, int) else 0)
