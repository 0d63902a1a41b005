"""A torch release that the catalog does not build yet: a line of the workspace's own, built as another is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Line, LineBuild, builtin_catalog
from torchsmith.catalog.facts import CLAIM
from torchsmith.core.problem import Exists, Invalid
from torchsmith.edit.pin import (
    FactTable,
    Move,
    bring_source,
    fixes_follow,
    laid_over,
    needed_fixes,
    pin_of,
    release_of,
    to_learn,
)
from torchsmith.edit.proposal import Proposal
from torchsmith.matrix.cells import find_line
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.run import carry_out

NAME = re.compile(r"[0-9A-Za-z][\w.-]*")


@dataclass(frozen=True, slots=True)
class NewLine:
    """What a person says of it; `like` is the line whose pins and fixes it takes."""

    name: str
    like: str
    torch: str
    rev: str = ""
    sha256: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)  # of other packages, by name
    probed: Mapping[str, Any] = field(default_factory=dict)  # what a tree of `rev` was asked


class LineRow(msgspec.Struct, frozen=True):
    """A torch release that is known: what goes with it, where it is built from, and what nobody proved."""

    name: str
    torch: str
    companions: Mapping[str, str]
    pins: list[str]
    cudas: list[str]
    own: bool
    unproved: str
    cells: int


def line_rows(workspace: Workspace) -> list[LineRow]:
    """Every line that a workspace knows, and how many of its cells are of it."""
    cells = Counter(cell.line for cell in workspace.matrix.cells)
    return [_row(line, cells[line.name]) for line in workspace.catalog.lines.values()]


def _row(line: Line, cells: int) -> LineRow:
    pins = sorted({one.pin for one in line.every_build.values() if one.pin})
    pairs = {name: version for name, version in line.versions.items() if version}
    own = builtin_catalog().lines.get(line.name) != line
    return LineRow(line.name, line.torch, pairs, pins, [*map(str, line.cuda)], own, line.unproved, cells)


def propose_line(workspace: Path | None, new: NewLine) -> Proposal:
    """Work it out; nothing is written."""
    return _added(open_workspace(workspace), new)


def add_line(workspace: Path | None, new: NewLine, *, wait_seconds: float = 0.0) -> Proposal:
    """Write the line into the workspace's own catalog."""
    with writing(open_workspace(workspace).home, "line add", wait_seconds) as writer:
        added = _added(open_workspace(workspace), new)
        carry_out(writer, (), (), edits=added.edits, tell_git=False)
    return added


def _added(workspace: Workspace, new: NewLine) -> Proposal:
    catalog = workspace.catalog
    root = workspace.home
    if not NAME.fullmatch(new.name):
        raise Invalid(f"{new.name!r} is no name of a line", hint="such as 2.11")
    there = catalog.lines.get(new.name)
    if there and any(not build.lacks_pin for build in there.every_build.values()):
        hint = f"torchsmith pin {new.name} moves it; torchsmith line list shows all"
        raise Exists(f"line {new.name} is there already: torch {there.torch}", hint=hint)
    edits = [laid_over(root, f"catalog/{name}.toml", table) for name, table in _facts(new, catalog).items()]
    after = workspace.with_texts({one.path: one.after for one in edits if one.after is not None})
    line = after.catalog.lines[new.name]
    unknown = to_learn(line, after.catalog, {"cpu", *map(str, line.cuda)})
    return Proposal(workspace=workspace, after=after, edits=tuple(edits), to_learn=tuple(unknown))


def _facts(new: NewLine, catalog: Catalog) -> dict[str, FactTable]:
    like = find_line(catalog, new.like)
    if not like.torch or like.flavor:
        raise Invalid(f"line {like.name} is no torch release that another could be built like")
    move = Move(like.name, new.rev, new.sha256, new.torch, new.versions, probed=new.probed)
    known = next((one for one in catalog.lines.values() if one.torch == new.torch), None)
    entry: FactTable = {
        **release_of(like, move, catalog),
        "pythons": [str(python) for python in (known or like).pythons],
        "source": "this workspace",
        "unproved": CLAIM,
    }
    facts: dict[str, FactTable] = {"lines": {new.name: entry}}
    builds = {name: build for name, build in like.every_build.items() if build.pin}
    if not builds:
        raise Invalid(f"line {like.name} has no nixpkgs that the new one could be built from")
    pin = ""
    if new.rev:
        old = Counter(build.pin for build in builds.values()).most_common(1)[0][0]
        builds = {name: build for name, build in builds.items() if build.pin == old}
        pin, made = pin_of(old, move, catalog)
        facts |= {"pins": {pin: made}} if made else {}
        if pin not in catalog.pins:
            facts |= fixes_follow({old}, pin, catalog)
    if new.probed:
        has = ("cpu", *new.probed.get("cudas", ()))
        native = new.probed.get("torch") == new.torch
        builds = {
            name: replace(build, fixes=tuple(needed_fixes(build, new.probed, catalog, native=native)))
            for name, build in builds.items()
            if name in has
        }
    told = {name: _build(build, pin) for name, build in builds.items()}
    entry |= {"cpu": told.pop("cpu")} if "cpu" in told else {}
    entry |= {"cuda": told}
    bring_source(entry, like, move, catalog)
    return facts


def _build(build: LineBuild, pin: str) -> FactTable:
    """As the other line builds it, at its pin or another."""
    stated = {"unproved": CLAIM, "claimed": True}
    made: FactTable = {"pin": pin or build.pin, "fixes": list(build.fixes), **stated}
    return made | ({"cuda_set": build.cuda_set} if build.cuda_set else {})
