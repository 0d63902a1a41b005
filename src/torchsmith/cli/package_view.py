"""Packages, and what adding or removing one changes, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchsmith.cli.console import next_step, out, plain_table, print_json, say_recovered, write
from torchsmith.edge.words import counted, grouped, some_of
from torchsmith.plan.package import PackageChange
from torchsmith.plan.package_entry import PackageRow, package_row
from torchsmith.workspace.load import Workspace

SHOWN = 5


class PackagesDocument(msgspec.Struct, frozen=True):
    """Every package that is known in a workspace."""

    packages: list[PackageRow]


class PackageChangeDocument(msgspec.Struct, frozen=True):
    """A package added or taken out: the facts that are written by file, and the recipes that follow."""

    name: str
    written: bool
    files: Mapping[str, str | None]
    needs: list[str]
    cells: list[str]
    left_out: Mapping[str, str]  # with the reason of each
    recipes: list[str]
    blocked: list[str]


def print_packages(workspace: Workspace, *, as_json: bool) -> None:
    """One row a package."""
    rows = [package_row(package, workspace) for package in workspace.catalog.packages.values()]
    if as_json:
        print_json(PackagesDocument(rows))
        return
    words = ("package", "release", "needs")
    table = plain_table(*words, "cells", "whose", right=("cells",), wrapped=(*words, "whose"))
    for row in rows:
        releases = " ".join(dict.fromkeys(row.releases.values())) or "nixpkgs' own"
        whose = "this workspace's" if row.own else "built in"
        table.add_row(row.name, releases, " ".join(row.needs), str(row.cells or "-"), whose)
    out().print(table)


def print_change(
    change: PackageChange, workspace: Path | None, *, added: bool, written: bool, as_json: bool
) -> None:
    """What Nix said, what is written, and what to do next."""
    if as_json:
        files = {one.path: one.after for one in change.edits}
        needs = list(change.package.needs) if added else []
        recipes, blocked = ([one.path for one in some] for some in (change.recipes, change.blocked))
        cells = (change.cells, change.left_out, recipes, blocked)
        print_json(PackageChangeDocument(change.name, written, files, needs, *cells))
        return
    say_recovered(change.recovered)
    if added:
        _say_probes(change)
    for edit in change.edits:
        word = ("wrote", "write") if edit.after is not None else ("deleted", "delete")
        write(f"{word[0] if written else f'would {word[1]}'} {edit.path}")
    for one in sorted(change.recipes, key=lambda one: f"/{change.name}-" not in one.path)[:SHOWN]:
        write(f"  {one.kind}  {one.path}")
    if len(change.recipes) > SHOWN:
        write(f"  … and {counted(len(change.recipes) - SHOWN, 'more recipe')}")
    for one in change.blocked:
        write(f"  left  {one.path}: {one.why}", "yellow")
    if added:
        _say_cells(change, workspace)


def _say_probes(change: PackageChange) -> None:
    """What Nix told of the package: its release and needs, or its error."""
    package = change.package
    said = grouped(
        (f"Nix refuses: {one.error}" if one.error else f"release {one.version}", one.cell.variant.cell)
        for one in change.probes
    )
    for words, cells in said.items():
        write(f"{package.attr} at {some_of(cells)}: {words}")
    write(f"needs {', '.join(package.needs) or 'nothing of the matrix'}")
    ways = [f"{way.by} {way.name} ({way.form})" for way in package.gpu_lists] or ["its torch"]
    write(f"is told its GPU by {', '.join(ways)}")


def _say_cells(change: PackageChange, workspace: Path | None) -> None:
    for reason, names in grouped((why, name) for name, why in change.left_out.items()).items():
        write(f"left out: {some_of(names)}: {reason}")
    write(f"{counted(len(change.cells), 'cell')} with it")
    if change.cells or change.left_out:
        words = ("eval", f"package:{change.name}") if change.cells else ("list", "--left-out")
        next_step(*words, workspace=workspace)
    else:
        write(f"torchsmith.toml names its cells one by one: add those of {change.name} to include")
