"""`torchsmith pin`: move a line to another nixpkgs or another torch."""

from __future__ import annotations

from torchsmith.api.editing import PinRequest, pin
from torchsmith.cli.console import answer, exit_if, next_step
from torchsmith.cli.options import JsonOption
from torchsmith.cli.terminal import Terminal
from torchsmith.verbs.edit_view import print_edit, print_refused

EXAMPLE = "torchsmith init builds && torchsmith pin 2.10 -w builds --rev 0182a36 --dry-run"


def run(*, request: PinRequest, json: JsonOption = False) -> None:
    """Move a line to another nixpkgs revision or torch release: all of its recipes, or none.

    The move is written into the catalog of the workspace, with the companion releases and hashes that are
    known; unknown hashes stay empty and are listed, for [bold]fix-hashes[/bold]. [bold]--learn[/bold]
    downloads the nixpkgs tarball for its hash; [bold]--eval[/bold] shows which derivations change.
    [bold]--nixpkgs[/bold] reads releases, CUDA sets, Pythons and the shape of torch from a tree of that
    revision; without one they stay unknown, and every cell says so until it is evaluated. The exit code is 1
    when a recipe of the line is not managed by torchsmith: nothing is moved then.
    """
    report = pin(request, Terminal())
    answer(report, print_refused if report.blocked else print_edit, as_json=json)
    if request.writing.dry_run:
        exit_if(report.blocked)
        return
    verb = "fix-hashes" if report.to_learn and not request.learn else "eval"
    next_step(verb, workspace=request.workspace, nixpkgs=request.nixpkgs)
