"""`torchsmith package`: the packages of a workspace, and more of your own."""

from __future__ import annotations

from torchsmith.api.editing import (
    EditReport,
    KnownRequest,
    PackageAddRequest,
    PackageRemoveRequest,
    PackagesReport,
    add_package,
    list_packages,
    remove_package,
)
from torchsmith.cli.console import answer, exit_if, next_step, table, write
from torchsmith.cli.group import Group
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.verbs.edit_view import print_edit

EXAMPLE = "torchsmith init builds && torchsmith package list -w builds"
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Show, add and remove packages.

    [bold]package list[/bold] shows the known packages and which ones this workspace builds. [bold]package
    add[/bold] adds a package of nixpkgs with its recipes; [bold]package remove[/bold] removes it. The exit
    code is 1 when Nix refuses every cell, or when files that torchsmith does not manage stand in the way.
    """


@app.command("list", "torchsmith package list")
def show(*, request: KnownRequest, json: JsonOption = False) -> None:
    """List the known packages with releases, dependencies, and their cells in this workspace."""
    answer(list_packages(request), _print_packages, as_json=json)


def _print_packages(report: PackagesReport) -> None:
    names = ("package", "release", "needs")
    rows = []
    for row in report.packages:
        releases = " ".join(dict.fromkeys(row.releases.values())) or "nixpkgs' own"
        whose = "this workspace's" if row.own else "built in"
        rows.append([row.name, releases, " ".join(row.needs), str(row.cells or "-"), whose])
    table((*names, "cells", "whose"), rows, right=("cells",), broken=(*names, "whose"))


@app.command("add", "torchsmith package add torchmetrics --attr torchmetrics")
def add(*, request: PackageAddRequest, json: JsonOption = False) -> None:
    """Add a package of nixpkgs to the workspace: its entry in catalog/packages.toml, and its recipes.

    Nix is asked which release each nixpkgs of the workspace has and on which systems, and for every line,
    CUDA release and system whether torch or other packages of the matrix are among its inputs and how the GPU
    target is passed. Cells that Nix refuses are left out, with Nix's error as the reason.
    """
    report = add_package(request, Terminal())
    answer(report, _print_added, as_json=json)
    if report.cells or report.left_out:
        verb = ("eval", f"package:{report.name}") if report.cells else ("list", "--left-out")
        next_step(*verb, workspace=request.workspace)
    exit_if(report.blocked)


def _print_added(report: EditReport) -> None:
    """What Nix says of the package, what is written, and the cells that it has."""
    for answered, cells in report.nixpkgs.items():
        more = f" and {counted(len(cells) - 1, 'more cell')}" if len(cells) > 1 else ""
        write(f"{report.name}, asked for {cells[0]}{more}: {answered}")
    write(f"needs {', '.join(report.needs) or 'nothing of the matrix'}")
    write(f"gets its GPU target by {', '.join(report.gpu_lists) or 'its torch'}")
    print_edit(report)
    for reason, names in grouped((why, cell) for cell, why in report.left_out.items()).items():
        write(f"left out: {some_of(names)}: {reason}")
    write(f"{counted(len(report.cells), 'cell')} with it")
    if not report.cells and not report.left_out:
        write(f"torchsmith.toml names its cells one by one: add those of {report.name} to include")


@app.command("remove", "torchsmith package remove torchmetrics")
def remove(*, request: PackageRemoveRequest, json: JsonOption = False) -> None:
    """Remove a package from the workspace: its recipes, and its entry if the workspace added it."""
    report = remove_package(request, Terminal())
    answer(report, print_edit, as_json=json)
    exit_if(report.blocked)
