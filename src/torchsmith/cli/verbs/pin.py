"""`torchsmith pin`: move a line to another nixpkgs or another torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchsmith.cli.nix_options import NixpkgsOption
from torchsmith.cli.options import JsonOption, WorkspaceOption

if TYPE_CHECKING:
    from torchsmith.plan.pin import Move

ADDRESS = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz"
EXAMPLE = "torchsmith init builds && torchsmith pin 2.10 -w builds --rev 0182a36 --dry-run"


def run(
    line: Annotated[str, typer.Argument(metavar="LINE", help="The line to move, such as 2.10.")],
    workspace: WorkspaceOption = None,
    rev: Annotated[str, typer.Option("--rev", help="The nixpkgs revision: 40 digits, or a pin's name.")] = "",
    sha256: Annotated[str, typer.Option("--sha256", help="The hash of its tarball, where it is known.")] = "",
    learn: Annotated[
        bool, typer.Option("--learn", help="Download the tarball, and state the hash that it has.")
    ] = False,
    tarball: Annotated[str, typer.Option("--tarball", help="With --learn: the address of a mirror.")] = "",
    torch: Annotated[str, typer.Option("--torch", help="The torch release, such as 2.10.1.")] = "",
    torchvision: Annotated[
        str, typer.Option("--torchvision", help="Its pair, where the catalog has none.")
    ] = "",
    torchaudio: Annotated[
        str, typer.Option("--torchaudio", help="Its pair, where the catalog has none.")
    ] = "",
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair", metavar="NAME=VERSION", help="The release of another package that goes with it."
        ),
    ] = None,
    evaluate: Annotated[bool, typer.Option("--eval", help="Evaluate before and after with Nix.")] = False,
    nixpkgs: NixpkgsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would change.")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over recipes that are not torchsmith's.")
    ] = False,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for another run to end.")] = 0.0,
    json: JsonOption = False,
) -> None:
    """Move a line to another nixpkgs revision or torch release: every recipe of it, or none.

    The move is written into the workspace's own catalog, pairs and hashes that are known with it; hashes
    that are not known are left empty and listed, for the first build to tell. With [bold]--learn[/bold] the
    hash of the nixpkgs tarball is learnt from a download, of the new revision or of those that the line has;
    with [bold]--eval[/bold] Nix says what changes, derivation by derivation.
    """
    from torchsmith.cli import pin_view as view
    from torchsmith.cli.nix_options import evaluation
    from torchsmith.plan.pin import Move, carry_out, evaluated, pairs_of, propose
    from torchsmith.workspace.load import open_workspace

    pairs = {"torchvision": torchvision, "torchaudio": torchaudio} | pairs_of(pair or [])
    move = Move(line, rev, sha256, torch, {name: version for name, version in pairs.items() if version})
    if learn:
        move = _learnt(workspace, move, tarball)
    ask = (
        evaluation(nixpkgs, None, 2.0, 300.0, True, workspace=open_workspace(workspace))[1]
        if evaluate
        else None
    )
    if dry_run:
        proposal = propose(workspace, move, adopt=adopt)
    else:
        proposal = carry_out(workspace, move, adopt=adopt, wait_seconds=wait)
    effects = evaluated(proposal, ask) if ask else None
    view.print_proposal(proposal, effects, written=not dry_run, as_json=json)
    if dry_run and proposal.blocked:
        raise typer.Exit(1)


def _learnt(workspace: Path | None, move: Move, tarball: str) -> Move:
    """The move with the hashes of its tarballs, from what a download holds."""
    from dataclasses import replace

    from torchsmith.edge.problem import Problem
    from torchsmith.nix.fetch import tarball_hash
    from torchsmith.nix.tool import find_nix
    from torchsmith.plan.pin import REVISION, pins_without_hash

    if move.sha256:
        raise Problem("--learn and --sha256 say the same thing twice", hint="give one of them")
    pins = {} if move.rev else {pin.name: pin.rev for pin in pins_without_hash(workspace, move.line)}
    if move.rev and not REVISION.fullmatch(move.rev):
        raise Problem("--learn needs the whole revision", hint="--rev with 40 digits")
    if tarball and len(pins) > 1:
        raise Problem(f"line {move.line} has {len(pins)} nixpkgs, and --tarball is one", hint="leave it out")
    if not move.rev and not pins:
        raise Problem(f"the hashes of line {move.line} are known", hint="nothing to learn")
    nix = find_nix()
    if move.rev:
        return replace(move, sha256=tarball_hash(nix, tarball or ADDRESS.format(rev=move.rev)))
    learnt = {name: tarball_hash(nix, tarball or ADDRESS.format(rev=rev)) for name, rev in pins.items()}
    return replace(move, hashes=learnt)
