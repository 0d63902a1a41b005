"""`torchsmith pin`: move a line to another nixpkgs or another torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.api.fields import Argument, Option
from torchsmith.api.nix_options import NixOptions, NixpkgsOption, read_trees
from torchsmith.api.options import JsonOption, PairOptions, TarballHashOption, WorkspaceOption, WriteOptions
from torchsmith.cli.console import exit_if, next_step, print_json, say_recovered, tell, write
from torchsmith.cli.evaluation import evaluation
from torchsmith.core.problem import Lacking
from torchsmith.core.words import counted
from torchsmith.edit.impact import Effect, summary
from torchsmith.edit.pin import Move, carry_out, evaluated, learnt, probed, propose
from torchsmith.edit.proposal import Proposal
from torchsmith.workspace.change import Change

EXAMPLE = "torchsmith init builds && torchsmith pin 2.10 -w builds --rev 0182a36 --dry-run"
SHOWN = 5


class PinDocument(msgspec.Struct, frozen=True):
    """A line's move: the facts to write by file, the recipes that follow, and what evaluation says."""

    written: bool
    facts: Mapping[str, str]
    recipes: list[str]
    blocked: list[str]
    to_learn: Sequence[str]
    effects: Sequence[Effect] | None


def run(
    line: Annotated[str, Argument("The line to move, such as 2.10.", metavar="LINE")],
    workspace: WorkspaceOption = None,
    rev: Annotated[str, Option("The nixpkgs revision: 40 digits, or a pin's name.")] = "",
    sha256: TarballHashOption = "",
    learn: Annotated[bool, Option("Download the tarball, and state the hash that it has.")] = False,
    tarball: Annotated[str, Option("With --learn: the address of a mirror.")] = "",
    torch: Annotated[str, Option("The torch release, such as 2.10.1.")] = "",
    *,
    pairs: PairOptions,
    evaluate: Annotated[bool, Option("--eval", "Evaluate before and after with Nix.")] = False,
    nixpkgs: NixpkgsOption = None,
    writing: WriteOptions,
    json: JsonOption = False,
) -> None:
    """Move a line to another nixpkgs revision or torch release: every recipe of it, or none.

    The move is written into the workspace's own catalog, pairs and hashes that are known with it; hashes
    that are not known are left empty and listed, for the first build to tell. With [bold]--learn[/bold] the
    hash of the nixpkgs tarball is learnt from a download, of the new revision or of those that the line has;
    with [bold]--eval[/bold] Nix says what changes, derivation by derivation. A tree given with
    [bold]--nixpkgs[/bold] is asked for its releases, CUDA sets, Pythons and the shape of its torch; without
    one a new revision is taken to be as the old, and marked so.
    """
    from torchsmith.workspace.journal import held
    from torchsmith.workspace.load import open_workspace

    if not writing.dry_run:
        with held(open_workspace(workspace).home, writing.wait):
            pass  # a folder that may not be written is named before anything is downloaded or asked
    move = Move(line, rev, sha256, torch, pairs.releases())
    if learn:
        move = learnt(workspace, move, tarball)
    asked = NixOptions(nixpkgs)
    if nixpkgs:
        try:
            move = probed(move, read_trees(nixpkgs), open_workspace(workspace).catalog)
        except Lacking as problem:
            tell(f"{problem.message}: the new revision is taken to be as the old")
        if move.probed:
            tell(_learnt_words(move.probed))
    ask = evaluation(asked, workspace=open_workspace(workspace))[1] if evaluate else None
    if writing.dry_run:
        proposal = propose(workspace, move, adopt=writing.adopt)
    else:
        proposal = carry_out(workspace, move, adopt=writing.adopt, wait_seconds=writing.wait)
    effects = evaluated(proposal, ask) if ask else None
    if json:
        facts = {Path(edit.path).stem: edit.after or "" for edit in proposal.edits}
        recipes = [change.path for change in proposal.recipes]
        document = PinDocument(
            written=not writing.dry_run and bool(facts or recipes),
            facts=facts,
            recipes=recipes,
            blocked=[change.path for change in _blocked(proposal)],
            to_learn=proposal.to_learn,
            effects=effects,
        )
        print_json(document)
    else:
        _print_proposal(proposal, effects, written=not writing.dry_run)
    exit_if(writing.dry_run and _blocked(proposal))
    if not writing.dry_run:
        unknown = proposal.to_learn and not learn
        next_step("fix-hashes" if unknown else "eval", workspace=workspace, nixpkgs=nixpkgs)


def _learnt_words(facts: Mapping[str, object]) -> str:
    """What a tree told, in a line."""
    cudas, pythons = (", ".join(map(str, facts.get(name) or ())) for name in ("cudas", "pythons"))  # type: ignore[call-overload]
    return f"{facts['source']}: torch {facts.get('torch')}, CUDA {cudas}, Python {pythons}"


def _blocked(proposal: Proposal) -> list[Change]:
    """The recipes of others that would stay where they are."""
    return [change for change in proposal.blocked if change.recipe]


def _print_proposal(proposal: Proposal, effects: Sequence[Effect] | None, *, written: bool) -> None:
    """Facts, recipes, what is to be learned, and what evaluation says."""
    say_recovered(proposal.recovered)
    for edit in proposal.edits:
        write(f"{'wrote' if written else 'would write'} {edit.path}")
    moved = proposal.recipes
    for one in moved[:SHOWN]:
        write(f"  {one.kind}  {one.path}")
    if len(moved) > SHOWN:
        write(f"  … and {counted(len(moved) - SHOWN, 'more recipe')}")
    for one in _blocked(proposal):
        write(f"  blocked  {one.path}: {one.why}")
    if proposal.to_learn:
        write(f"hashes to be learned: {', '.join(proposal.to_learn)}")
    for effect in effects or ():
        if effect.kind in ("broken", "still broken"):
            write(f"  {effect.kind}  {effect.name}: {effect.after}")
    if effects is not None:
        write(f"by evaluation: {summary(effects)}")
    if not moved and not proposal.edits:
        tell("nothing to write: the line is there already")
        return
    tell(f"{counted(len(moved), 'recipe')} {'moved' if written else 'would move'}")
