"""Facts of a workspace that change, and what follows: the one type that pin, line and package propose."""

from __future__ import annotations

from dataclasses import dataclass

from torchsmith.edit.package_entry import PackageProbe
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.wanted import WantedRepo


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
        """A package's cells that the matrix leaves out, each with the reason."""
        return {
            left.variant.name: "; ".join(map(str, left.reasons))
            for left in self.after.matrix.left_out
            if left.variant.package.name == package
        }
