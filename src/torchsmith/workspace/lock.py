"""Which nixpkgs a checkout is locked to: flake.lock, npins or niv."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem

LOCKS = ("flake.lock", "npins/sources.json", "nix/sources.json")


class LockedNixpkgs(NamedTuple):
    """A nixpkgs that a lock file names; `modified` is its date in seconds, 0 if that is not recorded."""

    rev: str
    modified: int


def locked_nixpkgs(file: Path) -> tuple[LockedNixpkgs, ...]:
    """Every nixpkgs of the nearest lock file at or above a file's folder and within its repository."""
    for folder in file.absolute().parents:
        for name in LOCKS:
            if (lock := folder / name).is_file():
                return _read(lock, lock.stat().st_mtime_ns)
        if (folder / ".git").exists():
            break
    return ()


@lru_cache(maxsize=64)
def _read(lock: Path, changed: int) -> tuple[LockedNixpkgs, ...]:
    try:
        table = json.loads(read_text(lock))
        locked = [*(_flake(table) if lock.name == "flake.lock" else _pins(table))]
    except (Problem, ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return ()
    return tuple(
        LockedNixpkgs(rev, modified if isinstance(modified, int) else 0)
        for name, rev, modified in locked
        if "nixpkgs" in name.lower() and isinstance(rev, str)
    )


def _flake(table: Any) -> Iterator[tuple[str, Any, Any]]:
    nodes = table["nodes"]
    inputs = nodes[table["root"]].get("inputs", {})
    for name, node in inputs.items():
        locked = nodes[node]["locked"] if isinstance(node, str) else {}
        yield name, locked.get("rev"), locked.get("lastModified")


def _pins(table: Any) -> Iterator[tuple[str, Any, Any]]:
    for name, pin in table.get("pins", table).items():
        if isinstance(pin, dict):
            yield name, pin.get("revision") or pin.get("rev"), 0
