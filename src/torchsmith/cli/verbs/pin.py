"""`torchsmith pin`: move a line to another nixpkgs or another torch."""

from __future__ import annotations

from typing import Annotated

import typer

from torchsmith.cli.nix_options import NixpkgsOption
from torchsmith.cli.options import AdoptOption, DryRunOption, JsonOption, WaitOption, WorkspaceOption
from torchsmith.cli.release_options import AudioOption, PairOption, TarballHashOption, VisionOption

EXAMPLE = "torchsmith init builds && torchsmith pin 2.10 -w builds --rev 0182a36 --dry-run"


def run(
    line: Annotated[str, typer.Argument(metavar="LINE", help="The line to move, such as 2.10.")],
    workspace: WorkspaceOption = None,
    rev: Annotated[str, typer.Option("--rev", help="The nixpkgs revision: 40 digits, or a pin's name.")] = "",
    sha256: TarballHashOption = "",
    learn: Annotated[
        bool, typer.Option("--learn", help="Download the tarball, and state the hash that it has.")
    ] = False,
    tarball: Annotated[str, typer.Option("--tarball", help="With --learn: the address of a mirror.")] = "",
    torch: Annotated[str, typer.Option("--torch", help="The torch release, such as 2.10.1.")] = "",
    torchvision: VisionOption = "",
    torchaudio: AudioOption = "",
    pair: PairOption = None,
    evaluate: Annotated[bool, typer.Option("--eval", help="Evaluate before and after with Nix.")] = False,
    nixpkgs: NixpkgsOption = None,
    dry_run: DryRunOption = False,
    adopt: AdoptOption = False,
    wait: WaitOption = 0.0,
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
    from torchsmith.plan.pin import Move, carry_out, evaluated, learnt, pairs_of, propose
    from torchsmith.workspace.load import open_workspace

    pairs = pairs_of(pair or [], torchvision=torchvision, torchaudio=torchaudio)
    move = Move(line, rev, sha256, torch, pairs)
    if learn:
        move = learnt(workspace, move, tarball)
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
