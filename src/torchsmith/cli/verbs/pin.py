"""`torchsmith pin`: move a line to another nixpkgs or another torch."""

from __future__ import annotations

from torchsmith.api.editing import PinRequest, pin
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import answer, exit_if, next_step
from torchsmith.cli.edit_view import print_edit
from torchsmith.cli.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith pin 2.10 -w builds --rev 0182a36 --dry-run"


def run(*, request: PinRequest, json: JsonOption = False) -> None:
    """Move a line to another nixpkgs revision or torch release: every recipe of it, or none.

    The move is written into the workspace's own catalog, pairs and hashes that are known with it; hashes
    that are not known are left empty and listed, for the first build to tell. With [bold]--learn[/bold] the
    hash of the nixpkgs tarball is learnt from a download, of the new revision or of those that the line has;
    with [bold]--eval[/bold] Nix says what changes, derivation by derivation. A tree given with
    [bold]--nixpkgs[/bold] is asked for its releases, CUDA sets, Pythons and the shape of its torch; without
    one they stay unknown, and every cell says so until it was evaluated.
    """
    report = pin(request, Terminal())
    answer(report, print_edit, as_json=json)
    if request.writing.dry_run:
        exit_if(report.blocked)
        return
    verb = "fix-hashes" if report.to_learn and not request.learn else "eval"
    next_step(verb, workspace=request.workspace, nixpkgs=request.nixpkgs)
