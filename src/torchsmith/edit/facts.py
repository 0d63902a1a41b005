"""Facts of a workspace that change: its torchsmith.toml and its catalog, which line and package write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import msgspec

from torchsmith.core.files import read_text
from torchsmith.core.problem import Conflict
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import Writer, writing
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import copies

HEAD = "# Facts of this workspace, in addition to torchsmith's own.\n\n"


class FactMove(msgspec.Struct, frozen=True):
    """One fact of a line before and after a change; empty: it has none."""

    what: str
    before: str
    after: str
    builds: Sequence[str] = ()  # that it is of, such as CUDA 13.0; empty: of the line


class EditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a workspace that change. The recipes follow by `apply`."""

    FORMAT: ClassVar[int] = 4
    name: str  # of the line or package
    written: bool
    files: Sequence[Change]  # torchsmith.toml and the workspace's catalog
    copies: Sequence[str] = ()  # of catalog files that lost an entry and were not committed
    cells: Sequence[str] = ()  # of the line or package, in the matrix
    moves: Sequence[FactMove] = ()  # what changes in a line
    lacks: Sequence[str] = ()  # what a line lacks for a build, such as hashes
    needs: Sequence[str] = ()  # the packages of the matrix that a package is built on
    gpu_lists: Sequence[str] = ()  # how the GPU target is passed to a package's build
    nixpkgs: Mapping[str, list[str]] = {}  # what each nixpkgs has of a package, and the cells asked
    left_out: Mapping[str, str] = {}  # of a package, each cell with the reason


@dataclass(frozen=True, slots=True)
class FactEdit:
    """A workspace as it is, as it will be, and the files that make the difference."""

    workspace: Workspace
    after: Workspace
    files: tuple[Change, ...]

    @classmethod
    def of(cls, workspace: Workspace, files: Iterable[Change]) -> FactEdit:
        """The edit that these changes are."""
        pending = tuple(file for file in files if file.pending)
        return cls(
            workspace, workspace.with_texts({file.path: file.after or "" for file in pending}), pending
        )

    def write(self, verb: str, wait_seconds: float) -> Writer:
        """Write the files, all or none, and copies of those that lose an entry and are not committed. Raises
        Conflict if one of them has changed since it was read."""
        home = self.workspace.home
        with writing(home, verb, wait_seconds) as writer:
            for file in self.files:
                if text_of(home, file.path) != file.before:
                    raise Conflict(f"{file.path} has changed meanwhile", hint="run the command again")
            writer.write([*copies(home, self.files), *self.files])
        return writer


def without_entry(workspace: Workspace, name: str, text: str) -> Change:
    """A file of facts that loses an entry, which someone may have written: a copy is kept."""
    return replace(fact_edit(workspace, name, text), owner="foreign")


def fact_edit(workspace: Workspace, name: str, text: str) -> Change:
    """A file of facts with another text, in the line endings that it has; it is deleted if nothing is
    left."""
    before = text_of(workspace.home, name)
    if "\r\n" in (before or ""):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text == (before or ""):
        return Change("keep", name, "", before, before)
    if text.strip() in ("", HEAD.strip()):
        return Change("delete", name, "nothing is left in it", before)
    return Change("create" if before is None else "rewrite", name, "other facts", before, text)


def text_of(root: Path, name: str) -> str | None:
    """The text of a file of a workspace; None if it does not exist."""
    return read_text(root / name) if (root / name).exists() else None
