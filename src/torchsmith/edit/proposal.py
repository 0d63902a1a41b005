"""Facts of a workspace that change, and the recipes that change with them: what line and package propose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import msgspec

from torchsmith.core.files import read_text
from torchsmith.edit.package_entry import PackageProbe
from torchsmith.workspace.change import Adoption, Change
from torchsmith.workspace.journal import writing
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.wanted import WantedRepo, wanted_repos
from torchsmith.workspace.write import write_changes

HEAD = "# Facts of this workspace, in addition to torchsmith's own.\n\n"


class FactMove(msgspec.Struct, frozen=True):
    """One fact of a line before and after a change; empty: it has none."""

    what: str
    before: str
    after: str


class EditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a workspace that change, and what follows from them."""

    FORMAT: ClassVar[int] = 3
    name: str  # of the line or package
    written: bool
    files: Sequence[Change]  # torchsmith.toml and the workspace's catalog
    recipes: Sequence[Change]
    blocked: Sequence[Change]  # files that torchsmith does not manage, which stay as they are
    moves: Sequence[FactMove] = ()  # what changes in a line
    derivations: int = 0  # that are new or others than before: one for each recipe that is written
    to_learn: Sequence[str] = ()  # sources without a hash, which fix-hashes finds
    unhashed: Sequence[str] = ()  # pins without a hash: their downloads are not checked
    needs: Sequence[str] = ()  # the packages of the matrix that a package is built on
    gpu_lists: Sequence[str] = ()  # how the GPU target is passed to a package's build
    nixpkgs: Mapping[str, list[str]] = {}  # what each nixpkgs has of a package, and the cells asked
    cells: Sequence[str] = ()  # of a package, in the matrix
    left_out: Mapping[str, str] = {}  # of a package, each cell with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A workspace before and after, the files of facts that say so, and the recipes that differ then."""

    workspace: Workspace
    after: Workspace
    edits: tuple[Change, ...]  # of torchsmith.toml and the workspace's catalog
    repos: tuple[WantedRepo, ...] = ()
    changes: tuple[Change, ...] = ()  # of recipes and the files around them
    to_learn: tuple[str, ...] = ()  # sources without a hash
    unhashed: tuple[str, ...] = ()  # pins without a hash
    probes: tuple[PackageProbe, ...] = ()  # what Nix said of a package
    recovered: str = ""  # what an interrupted run had left

    @property
    def recipes(self) -> list[Change]:
        """The recipes that change."""
        return [change for change in self.changes if change.recipe and change.pending]

    @property
    def blocked(self) -> list[Change]:
        """Files that torchsmith does not manage and that would change."""
        return [change for change in self.changes if change.skipped]

    def report(self, name: str, *, written: bool) -> EditReport:
        """The changes of a line or package."""
        return EditReport(
            name=name,
            written=written and bool(self.edits or self.recipes),
            files=self.edits,
            recipes=self.recipes,
            blocked=self.blocked,
            to_learn=self.to_learn,
            unhashed=self.unhashed,
        )

    def cells_of(self, package: str) -> list[str]:
        """A package's cells in the matrix."""
        return [cell.name for cell in self.after.matrix.cells if cell.variant.package.name == package]

    def left_out_of(self, package: str) -> dict[str, str]:
        """A package's cells that the matrix leaves out, each with the reason; if it has some, also the cells
        that only torch has."""
        cells, reason = self.cells_of(package), f"torchsmith.toml has other packages than {package} there"
        torchs = [cell.variant for cell in self.after.matrix.cells if cell.variant.package.is_torch]
        names = [variant.of(self.after.catalog.packages[package]).name for variant in torchs]
        return {name: reason for name in names if cells and name not in cells} | {
            left.variant.name: "; ".join(map(str, left.reasons))
            for left in self.after.matrix.left_out
            if left.variant.package.name == package
        }


def fact_edit(root: Path, name: str, text: str, why: str) -> Change:
    """A file of facts with another text, in the line endings that it has; it is deleted if nothing is
    left."""
    before = text_of(root, name)
    if "\r\n" in (before or ""):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text == (before or ""):
        return Change("keep", name, "", before, before)
    if text.strip() in ("", HEAD.strip()):
        return Change("delete", name, "nothing is left in it", before)
    return Change("create" if before is None else "rewrite", name, why, before, text)


def text_of(root: Path, name: str) -> str | None:
    """The text of a file of a workspace; None if it does not exist."""
    return read_text(root / name) if (root / name).exists() else None


def proposed(
    workspace: Workspace,
    texts: Mapping[str, str],
    edits: Iterable[Change],
    *,
    adopt: bool,
    gone: str = "",
) -> Proposal:
    """What follows from new texts of a workspace's files, which `edits` write. The folder `gone` should be
    empty afterwards."""
    after = workspace.with_texts(texts)
    repos = wanted_repos(after)
    if gone and gone not in {repo.name for repo in repos} and (workspace.home / gone).is_dir():
        repos.append(WantedRepo(gone, ()))
    return Proposal(
        workspace=workspace,
        after=after,
        edits=tuple(edit for edit in edits if edit.pending),
        repos=tuple(repos),
        changes=_changes_between(workspace, after, repos, adopt=adopt),
    )


def _changes_between(
    before: Workspace, after: Workspace, repos: Sequence[WantedRepo], *, adopt: bool
) -> tuple[Change, ...]:
    """The changes that make `repos` what they should be afterwards, without those that were due before."""
    adoption = Adoption(adopt)
    changes = reconcile(before, wanted_repos(before), adopt=adoption)
    due = {(change.path, change.after) for change in changes if change.pending or change.skipped}
    return tuple(
        change for change in reconcile(after, repos, adopt=adoption) if (change.path, change.after) not in due
    )


def write_proposal(
    make: Callable[[], Proposal], home: Path, verb: str, *, wait_seconds: float, add: bool = False
) -> Proposal:
    """Make a proposal while the workspace is locked, and write it: facts and recipes, all or none."""
    with writing(home, verb, wait_seconds) as writer:
        proposal = make()
        write_changes(writer, proposal.repos, proposal.changes, edits=proposal.edits, add=add)
    return replace(proposal, recovered=writer.recovered)
