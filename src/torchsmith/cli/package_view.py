"""Packages, and what adding or removing one changes, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchsmith.cli.console import next_step, out, plain_table, print_json, say_recovered, write
from torchsmith.core.words import counted, grouped, some_of
from torchsmith.edit.package_entry import PackageRow, package_row
from torchsmith.edit.proposal import Proposal
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
    change: Proposal, name: str, workspace: Path | None, *, added: bool, written: bool, as_json: bool
) -> None:
    """What Nix said, what is written, and what to do next."""
    if as_json:
        files = {one.path: one.after for one in change.edits}
        needs = list(change.after.catalog.packages[name].needs) if added else []
        recipes, blocked = ([one.path for one in some] for some in (change.recipes, change.blocked))
        document = PackageChangeDocument(
            name=name,
            written=written,
            files=files,
            needs=needs,
            cells=change.cells_of(name),
            left_out=change.left_out_of(name),
            recipes=recipes,
            blocked=blocked,
        )
        print_json(document)
        return
    say_recovered(change.recovered)
    if added:
        _say_probes(change, name)
    for edit in change.edits:
        word = ("wrote", "write") if edit.after is not None else ("deleted", "delete")
        write(f"{word[0] if written else f'would {word[1]}'} {edit.path}")
    for one in sorted(change.recipes, key=lambda one: f"/{name}-" not in one.path)[:SHOWN]:
        write(f"  {one.kind}  {one.path}")
    if len(change.recipes) > SHOWN:
        write(f"  … and {counted(len(change.recipes) - SHOWN, 'more recipe')}")
    for one in change.blocked:
        write(f"  left  {one.path}: {one.why}", "yellow")
    if added:
        _say_cells(change, name, workspace)


def _say_probes(change: Proposal, name: str) -> None:
    """What Nix told of the package: its release and needs, or its error."""
    package = change.after.catalog.packages[name]
    said = grouped(
        (f"Nix refuses: {one.error}" if one.error else f"release {one.version}", one.cell.variant.cell)
        for one in change.probes
    )
    for words, cells in said.items():
        write(f"{package.attr} at {some_of(cells)}: {words}")
    write(f"needs {', '.join(package.needs) or 'nothing of the matrix'}")
    ways = [f"{way.by} {way.name} ({way.form})" for way in package.gpu_lists] or ["its torch"]
    write(f"is told its GPU by {', '.join(ways)}")


def _say_cells(change: Proposal, name: str, workspace: Path | None) -> None:
    cells, left_out = change.cells_of(name), change.left_out_of(name)
    for reason, names in grouped((why, cell) for cell, why in left_out.items()).items():
        write(f"left out: {some_of(names)}: {reason}")
    write(f"{counted(len(cells), 'cell')} with it")
    if cells or left_out:
        words = ("eval", f"package:{name}") if cells else ("list", "--left-out")
        next_step(*words, workspace=workspace)
    else:
        write(f"torchsmith.toml names its cells one by one: add those of {name} to include")
