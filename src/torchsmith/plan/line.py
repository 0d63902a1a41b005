"""A torch release that the catalog does not build yet: a line of the workspace's own, built as another is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.catalog import Catalog, Line, LineBuild
from torchsmith.edge.problem import Exists, Invalid
from torchsmith.matrix.cells import find_line
from torchsmith.plan.pin import (
    FactTable,
    Move,
    bring_source,
    fixes_follow,
    laid_over,
    pin_of,
    release_of,
    to_learn,
)
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.proved import CLAIM
from torchsmith.workspace.run import carry_out, root_of

NAME = re.compile(r"[0-9A-Za-z][\w.-]*")
VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


@dataclass(frozen=True, slots=True)
class NewLine:
    """What a person says of it; `like` is the line whose pins and fixes it takes."""

    name: str
    like: str
    torch: str
    rev: str = ""
    sha256: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)  # of other packages, by name


@dataclass(frozen=True, slots=True)
class AddedLine:
    """What adding it writes, and what is still to be learned."""

    line: Line
    edits: tuple[Change, ...]
    to_learn: tuple[str, ...]


def propose_line(workspace: Path | None, new: NewLine) -> AddedLine:
    """Work it out; nothing is written."""
    root_of(workspace)
    opened = open_workspace(workspace)
    return _added(opened, new)


def add_line(workspace: Path | None, new: NewLine, *, wait_seconds: float = 0.0) -> AddedLine:
    """Write the line into the workspace's own catalog."""
    with writing(root_of(workspace), "line add", wait_seconds) as writer:
        added = _added(open_workspace(workspace), new)
        carry_out(writer, (), (), edits=added.edits, tell_git=False)
    return added


def _added(workspace: Workspace, new: NewLine) -> AddedLine:
    catalog = workspace.catalog
    assert workspace.root is not None
    for what, word, form in (("name", new.name, NAME), ("torch release", new.torch, VERSION)):
        if not form.fullmatch(word):
            raise Invalid(f"{word!r} is no {what} of a line", hint="such as 2.11 and 2.11.0")
    there = catalog.lines.get(new.name)
    if there and any(not build.lacks_pin for build in (there.cpu, *there.cuda.values()) if build):
        raise Exists(
            f"line {new.name} is there already: torch {there.torch}",
            hint=f"torchsmith pin {new.name} moves it; torchsmith line list shows all",
        )
    edits = [
        laid_over(workspace.root, f"catalog/{name}.toml", table)
        for name, table in _facts(new, catalog).items()
    ]
    after = workspace.with_texts({one.path: one.after for one in edits if one.after is not None}).catalog
    line = after.lines[new.name]
    return AddedLine(line, tuple(edits), tuple(to_learn(line, after, {"cpu", *map(str, line.cuda)})))


def _facts(new: NewLine, catalog: Catalog) -> dict[str, FactTable]:
    like = find_line(catalog, new.like)
    if not like.torch or like.flavor:
        raise Invalid(f"line {like.name} is no torch release that another could be built like")
    move = Move(like.name, new.rev, new.sha256, new.torch, new.versions)
    known = next((one for one in catalog.lines.values() if one.torch == new.torch), None)
    entry: FactTable = {
        **release_of(like, move, catalog),
        "pythons": [str(python) for python in (known or like).pythons],
        "source": "this workspace",
        "unproved": CLAIM,
    }
    facts: dict[str, FactTable] = {"lines": {new.name: entry}}
    every = {"cpu": like.cpu, **{str(cuda): build for cuda, build in like.cuda.items()}}
    builds = {name: build for name, build in every.items() if build is not None and build.pin}
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
    told = {name: _build(build, pin) for name, build in builds.items()}
    entry |= {"cpu": told.pop("cpu")} if "cpu" in told else {}
    entry |= {"cuda": told}
    bring_source(entry, like, move, catalog)
    return facts


def _build(build: LineBuild, pin: str) -> FactTable:
    """As the other line builds it, at its pin or another."""
    made: FactTable = {"pin": pin or build.pin, "fixes": list(build.fixes), "unproved": CLAIM}
    return made | ({"cuda_set": build.cuda_set} if build.cuda_set else {})
