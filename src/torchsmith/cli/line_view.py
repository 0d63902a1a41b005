"""Torch releases, and what adding one writes, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchsmith.catalog.ranges import version_key
from torchsmith.cli.console import next_step, out, plain_table, print_json, write
from torchsmith.edit.line import LineRow, line_rows
from torchsmith.edit.proposal import Proposal
from torchsmith.workspace.load import Workspace


class LinesDocument(msgspec.Struct, frozen=True):
    """Every torch release that is known in a workspace."""

    lines: list[LineRow]


class AddedLineDocument(msgspec.Struct, frozen=True):
    """A torch release that was added: the facts by file, and the hashes that nobody knows yet."""

    name: str
    written: bool
    files: Mapping[str, str]
    to_learn: list[str]


def print_lines(workspace: Workspace, *, as_json: bool) -> None:
    """One row a line."""
    rows = line_rows(workspace)
    if as_json:
        print_json(LinesDocument(rows))
        return
    pair = ("torchvision", "torchaudio")
    table = plain_table("line", "torch", *pair, "nixpkgs", "CUDA", "cells", right=("cells",))
    for row in rows:
        pairs = [row.companions.get(name) or "-" for name in pair]
        cudas = sorted(row.cudas, key=version_key)
        span = " to ".join(dict.fromkeys((cudas[0], cudas[-1]))) if cudas else "-"
        name = f"{row.name}*" if row.own else row.name
        table.add_row(name, row.torch or "-", *pairs, " ".join(row.pins) or "-", span, str(row.cells or "-"))
    out().print(table)
    if any(row.own for row in rows):
        write("* this workspace's own")
    if any(row.torch and not row.pins for row in rows):
        write("without a nixpkgs: torchsmith line add NAME --torch VERSION --from LINE builds it as another")


def print_added(added: Proposal, name: str, workspace: Path | None, *, written: bool, as_json: bool) -> None:
    """What is written, what is to be learned, and what to do next."""
    files = {one.path: one.after or "" for one in added.edits}
    line = added.after.catalog.lines[name]
    if as_json:
        print_json(AddedLineDocument(line.name, written, files, list(added.to_learn)))
        return
    pairs = ", ".join(f"{name} {version}" for name, version in line.versions.items() if version)
    verb = "wrote" if written else "would write"
    write(f"{verb} {', '.join(files)}: line {line.name}, torch {line.torch}, {pairs}")
    if added.to_learn:
        write(f"hashes that nobody knows yet: {', '.join(added.to_learn)}")
    if not written:
        return
    write(
        f'line = "{line.name}" in a [[matrix]] of torchsmith.toml asks for it, with prefix = true'
        " where another line has the same cell; then:"
    )
    next_step("generate", workspace=workspace)
    if added.to_learn:
        next_step("fix-hashes", workspace=workspace, why="learns the hashes")
    next_step("eval", workspace=workspace, why="proves it")
