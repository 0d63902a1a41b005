"""What is done next, as a command that can be copied: the last words of a verb."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torchsmith.cli.paint import paint, tell, width
from torchsmith.edge.words import shell_word


def command(*words: str, workspace: Path | None = None, nixpkgs: Sequence[str] | None = None) -> str:
    """A command of ours as a person can copy it; no workspace is named where it is this folder."""
    here = workspace is None or workspace.absolute() == Path.cwd()
    where = [] if here else ["-w", str(workspace)]
    given = [tree for tree in nixpkgs or () if tree != os.environ.get("TORCHSMITH_NIXPKGS")]
    trees = [word for tree in given for word in ("--nixpkgs", tree)]
    return " ".join(map(shell_word, ("torchsmith", *words, *trees, *where)))


def next_step(
    *words: str, workspace: Path | None = None, nixpkgs: Sequence[str] | None = None, why: str = ""
) -> None:
    """`next: torchsmith WORDS -w WORKSPACE`, on stderr, with the nixpkgs that was named."""
    said = command(*words, workspace=workspace, nixpkgs=nixpkgs)
    sys.stdout.flush()  # what it follows comes first, also where both go into one file
    aside = f"   # {why}" if why else ""
    room = width(sys.stderr)
    if room and len(f"next: {said}{aside}") > room:
        aside = aside and f"\n      # {why}"
    tell(paint("next: ", "cyan", sys.stderr) + said + aside, whole=True)
