"""`torchsmith line`: the torch releases that can be built, and more of your own."""

from __future__ import annotations

from torchsmith.api.editing import NEW_LINE, KnownRequest, LineAddRequest, LinesReport, add_line, list_lines
from torchsmith.catalog.ranges import version_key
from torchsmith.cli.console import answer, next_step, table, write
from torchsmith.cli.group import Group
from torchsmith.cli.options import JsonOption
from torchsmith.verbs.edit_view import print_edit
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith line list -w builds"
PAIR = ("torchvision", "torchaudio")
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Show and add torch releases.

    [bold]line list[/bold] shows each release with its companions and what is proved of it. [bold]line
    add[/bold] adds one of your own; [bold]pin[/bold] moves a line to another nixpkgs or release.
    """


@app.command("list", "torchsmith line list")
def show(*, request: KnownRequest, json: JsonOption = False) -> None:
    """List the known torch releases with companions, nixpkgs, and what is not proved."""
    answer(list_lines(request), _print_lines, as_json=json)


def _print_lines(report: LinesReport) -> None:
    rows = []
    for row in report.lines:
        pairs = [row.companions.get(name) or "-" for name in PAIR]
        cudas = sorted(row.cudas, key=version_key)
        span = " to ".join(dict.fromkeys((cudas[0], cudas[-1]))) if cudas else "-"
        name = f"{row.name}*" if row.own else row.name
        pins = " ".join(row.pins) or "-"
        rows.append([name, row.torch or "-", *pairs, pins, span, str(row.cells or "-")])
    table(("line", "torch", *PAIR, "nixpkgs", "CUDA", "cells"), rows, right=("cells",))
    if any(row.own for row in report.lines):
        write("* this workspace's own")
    for row in report.lines:
        if row.backends:
            write(f"{row.name} also has builds for {', '.join(row.backends)}")
    for row in report.lines:
        if row.lacks:
            write(f"{row.name} lacks {'; '.join(row.lacks)}: {row.next}")
    for row in report.lines:
        if row.remarks:
            step = f": {row.next}" if row.next and not row.lacks else ""
            state = ", once it has that" if row.lacks else " can be built"
            write(f"{row.name}{state}: {'; '.join(row.remarks)}{step}")


@app.command("add", NEW_LINE)
def add(*, request: LineAddRequest, json: JsonOption = False) -> None:
    """Add a torch release to the workspace: a line of its own in catalog/lines.toml.

    It is built like another line, at its nixpkgs or at --rev, with torch and companions from their own
    sources. Unknown hashes stay empty, for [bold]fix-hashes[/bold], and every cell carries a warning until it
    is evaluated. With a tree of the revision, torch, companions, CUDA sets and Pythons are read from it; a
    release that nixpkgs has itself needs no source and no fix. [bold]--matrix[/bold] adds the cells of
    profile real in this line to torchsmith.toml.
    """
    report = add_line(request, Terminal())
    answer(report, print_edit, as_json=json)
    if not report.written or json:
        return
    if not request.matrix:
        write(
            f'line = "{request.name}" in a [[matrix]] of torchsmith.toml asks for it, with prefix = true'
            " where another line has the same cell; then:"
        )
    tree = [f"{request.rev}={request.nixpkgs}"] if request.nixpkgs else []
    next_step("apply", workspace=request.workspace)
    next_step("eval", workspace=request.workspace, nixpkgs=tree, why="proves it")
    if report.to_learn:
        next_step("fix-hashes", workspace=request.workspace, why="learns the hashes before a build")
