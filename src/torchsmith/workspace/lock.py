"""Which nixpkgs a checkout is locked to: flake.lock, npins or niv."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem

LOCKS = ("flake.lock", "npins/sources.json", "nix/sources.json")


def locked_nixpkgs(file: Path) -> Mapping[str, str]:
    """Revisions of nixpkgs by the name of their input, from the nearest lock file at or above a file's folder
    and within its repository."""
    for folder in file.absolute().parents:
        for name in LOCKS:
            if (lock := folder / name).is_file():
                return _read(lock, lock.stat().st_mtime_ns)
        if (folder / ".git").exists():
            break
    return {}


@lru_cache(maxsize=64)
def _read(lock: Path, changed: int) -> Mapping[str, str]:
    try:
        table = json.loads(read_text(lock))
        revisions = _flake(table) if lock.name == "flake.lock" else _pins(table)
    except (Problem, ValueError, AttributeError, TypeError, KeyError):
        return {}
    return {
        name: rev for name, rev in revisions.items() if "nixpkgs" in name.lower() and isinstance(rev, str)
    }


def _flake(table: Any) -> dict[str, Any]:
    nodes = table["nodes"]
    inputs = nodes[table["root"]].get("inputs", {})
    return {name: nodes[node]["locked"].get("rev") for name, node in inputs.items() if isinstance(node, str)}


def _pins(table: Any) -> dict[str, Any]:
    sources = table.get("pins", table)
    return {
        name: pin.get("revision") or pin.get("rev") for name, pin in sources.items() if isinstance(pin, dict)
    }
