"""`torchsmith line`: the torch releases that can be built, and more of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.options import (
    DryRunOption,
    JsonOption,
    PairOptions,
    TarballHashOption,
    WaitOption,
    WorkspaceOption,
)
from torchsmith.api.samples import or_sample
from torchsmith.cli.group import Group
from torchsmith.core.problem import Incomplete

if TYPE_CHECKING:
    from torchsmith.catalog import Catalog

EXAMPLE = "torchsmith init builds && torchsmith line list -w builds"
ADD = "torchsmith line add 2.11 --torch 2.11.0 --from 2.10"
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """The torch releases that can be built, and more of your own.

    [bold]line list[/bold] shows each with its companions and how well it is known. [bold]line add[/bold]
    writes one that is built as another is, from its own sources; [bold]pin[/bold] moves a line as a whole.
    """


@app.command("list", "torchsmith line list")
def show(workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Every torch release that is known: its companions, its nixpkgs, and what is not proved of it."""
    from torchsmith.cli.line_view import print_lines
    from torchsmith.workspace.load import open_workspace

    print_lines(open_workspace(workspace), as_json=json)


@app.command("add", ADD)
def add(
    name: Annotated[str, Argument("What to call it, such as 2.11.", metavar="NAME")],
    workspace: WorkspaceOption = None,
    torch: Annotated[str, Option("The torch release, such as 2.11.0.")] = "",
    like: Annotated[str, Option("--from", "The line whose nixpkgs and fixes it takes.", metavar="LINE")] = "",
    *,
    pairs: PairOptions,
    rev: Annotated[str, Option("Another nixpkgs: 40 digits, or a pin's name.")] = "",
    sha256: TarballHashOption = "",
    nixpkgs: Annotated[Path | None, Option("A tree of --rev, which is asked for its releases.")] = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = 0.0,
    json: JsonOption = False,
) -> None:
    """Add a torch release to the workspace: a line of its own in catalog/lines.toml.

    It is built as another line is, at its nixpkgs or at --rev, with torch and companions from their own
    sources. Hashes that are not known are left empty, for [bold]fix-hashes[/bold] to learn, and every cell
    carries a warning until an evaluation has proved it. A tree of the revision tells its own torch and
    companions, CUDA sets and Pythons; a release that is its own needs no source and no fix.
    """
    from torchsmith.cli.line_view import print_added
    from torchsmith.edit.line import NewLine, add_line, propose_line

    releases, facts = pairs.releases(), {}
    if nixpkgs is not None and rev:
        from torchsmith.nix.probe import probe
        from torchsmith.nix.tool import find_nix
        from torchsmith.workspace.load import open_workspace

        catalog = open_workspace(workspace).catalog
        facts = probe(find_nix(), or_sample(nixpkgs, "nixpkgs"), catalog)
        torch = torch or facts.get("torch", "")
        like = like or newest_proved(catalog)
        own = {one: facts[one] for one in catalog.lines[like].versions if one in facts} if like else {}
        releases = own | releases
    if not torch or not like:
        raise Incomplete("a new line needs its torch release and a line that it is like", hint=ADD)
    new = NewLine(name, like, torch, rev, sha256, releases, facts)
    added = propose_line(workspace, new) if dry_run else add_line(workspace, new, wait_seconds=wait)
    print_added(added, name, workspace, written=not dry_run, as_json=json)


def newest_proved(catalog: Catalog) -> str:
    """The newest line that was evaluated, whose builds a new one can take after."""
    from torchsmith.matrix.cells import newest_line

    line = newest_line(catalog, None)
    return line.name if line else ""
