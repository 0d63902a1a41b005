"""Facts of a workspace that change, and what follows: the one type that pin, line and package propose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torchsmith.edit.package_entry import PackageProbe
from torchsmith.workspace.change import Adoption, Change
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.wanted import WantedRepo, wanted_repos


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A workspace before and after, the files of facts that say so, and the recipes that differ then."""

    workspace: Workspace
    after: Workspace
    edits: tuple[Change, ...]  # of torchsmith.toml and the workspace's catalog
    repos: tuple[WantedRepo, ...] = ()
    changes: tuple[Change, ...] = ()  # of recipes and the files around them
    to_learn: tuple[str, ...] = ()  # unknown hashes
    probes: tuple[PackageProbe, ...] = ()  # what Nix said of a package
    recovered: str = ""  # what a stopped run had left

    @property
    def recipes(self) -> list[Change]:
        """The recipes that change."""
        return [change for change in self.changes if change.recipe and change.pending]

    @property
    def blocked(self) -> list[Change]:
        """Files that somebody else wrote or edited, and that would change."""
        return [change for change in self.changes if change.skipped]

    def cells_of(self, package: str) -> list[str]:
        """A package's cells in the matrix."""
        return [cell.name for cell in self.after.matrix.cells if cell.variant.package.name == package]

    def left_out_of(self, package: str) -> dict[str, str]:
        """A package's cells that the matrix leaves out, each with the reason; where it has some, those that
        torch has and it has not are among them."""
        cells, reason = (
            self.cells_of(package),
            f"torchsmith.toml asks there for other packages than {package}",
        )
        torchs = [cell.variant for cell in self.after.matrix.cells if cell.variant.package.is_torch]
        names = [variant.of(self.after.catalog.packages[package]).name for variant in torchs]
        return {name: reason for name in names if cells and name not in cells} | {
            left.variant.name: "; ".join(map(str, left.reasons))
            for left in self.after.matrix.left_out
            if left.variant.package.name == package
        }


def proposed(
    workspace: Workspace,
    texts: Mapping[str, str],
    edits: Iterable[Change],
    *,
    adopt: bool,
    gone: str = "",
) -> Proposal:
    """What follows from other texts of a workspace's files, which `edits` write; in the folder `gone` nothing
    is wanted any more."""
    after = workspace.with_texts(texts)
    repos = wanted_repos(after)
    if gone and (workspace.home / gone).is_dir():
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
    """The changes that make `repos` what they should be after; a file of somebody else that would have to
    change before too is none of them."""
    adoption = Adoption(adopt)
    changes = reconcile(before, wanted_repos(before), adopt=adoption)
    blocked = {(change.path, change.after) for change in changes if change.skipped}
    return tuple(
        change
        for change in reconcile(after, repos, adopt=adoption)
        if not change.skipped or (change.path, change.after) not in blocked
    )
