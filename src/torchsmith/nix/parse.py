"""Nix' own reading of a file, for text that our grammar does not understand."""

from __future__ import annotations

from pathlib import Path

from torchsmith.edge.problem import Exit, Invalid, Problem
from torchsmith.nix.errors import shorten
from torchsmith.nix.tool import Nix, find_nix


def canonical_text(path: Path, nix: Nix | None = None) -> str | None:
    """A file as Nix prints it after parsing; None without Nix, a Problem where Nix refuses it too.

    The text means the same, but its positions are not the file's.
    """
    try:
        nix = nix or find_nix()
    except Problem as problem:
        if problem.exit is Exit.LACKING:
            return None
        raise
    done = nix.run(nix.command("nix-instantiate", "--parse", path), timeout=60)
    if done.ok:
        return done.stdout
    cause = shorten(done.stderr)
    raise Invalid(f"not valid Nix: {cause.message}", where=cause.where)
