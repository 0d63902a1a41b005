"""`torchsmith page`: the matrix and all that is known of it, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Argument, Option
from torchsmith.api.nix_options import NixpkgsOption
from torchsmith.api.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.console import print_json, tell, warn, write
from torchsmith.core.words import counted

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith page -w builds -o page.html"
PAGE = Path("torchsmith.html")


def run(
    folder: Annotated[
        Path | None, Argument("A repository of anybody; else the workspace.", metavar="[FOLDER]")
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", f"Where to write the page; else {PAGE}.", metavar="FILE")
    ] = None,
    evaluate: Annotated[bool, Option("--eval", "Ask Nix for derivations and what they share.")] = False,
    fleet: Annotated[Path | None, Option("Draw what variants buy it; see cover.", metavar="FILE")] = None,
    nixpkgs: NixpkgsOption = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
) -> None:
    """Write one page that shows the matrix: opens from disk, asks nobody, readable without JavaScript.

    It tells of every cell how it stands, and why: recipe, findings, what it shares, builds and verification.
    Nothing outside the workspace's folder is read, and nothing is built.
    """
    from torchsmith.cli.page_run import page_request, with_cover
    from torchsmith.core.files import check_own, write_atomic
    from torchsmith.page.collect import collect, pickable
    from torchsmith.page.html import GENERATOR, page

    file = output or (None if json else PAGE)
    if file is not None:
        check_own(file, f'content="{GENERATOR} ')
    asked = page_request(folder, workspace, profile, nixpkgs, evaluate)
    if fleet is not None:
        asked = with_cover(asked, fleet)
    document = collect(asked)
    for note in document.notes:
        warn(note)
    if file is not None:
        text = page(document, asked.workspace.catalog, pickable(asked))
        write_atomic(file, text)
        said = f"{file}: {counted(len(document.cells), 'cell')}, {len(text.encode()) / 1024:.0f} KiB"
        (tell if json else write)(said)
    if json:
        print_json(document)
