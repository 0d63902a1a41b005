"""Moves of a line, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchsmith.cli.console import err, out, print_json, say_recovered
from torchsmith.plan.impact import Effect, summary
from torchsmith.plan.pin import Proposal

SHOWN = 5


class PinDocument(msgspec.Struct, frozen=True):
    """A line's move: the facts to write by file, the recipes that follow, and what evaluation says."""

    written: bool
    facts: Mapping[str, str]
    recipes: list[str]
    blocked: list[str]
    to_learn: Sequence[str]
    effects: Sequence[Effect] | None


def print_proposal(
    proposal: Proposal, effects: Sequence[Effect] | None, *, written: bool, as_json: bool
) -> None:
    """Facts, recipes, what is to be learned, and what evaluation says."""
    if as_json:
        print_json(
            PinDocument(
                written,
                proposal.facts,
                [one.path for one in proposal.recipes],
                [one.path for one in proposal.blocked],
                proposal.to_learn,
                effects,
            )
        )
        return
    say_recovered(proposal.recovered)
    console = out()
    for name in proposal.facts:
        console.print(f"{'wrote' if written else 'would write'} catalog/{name}.toml", soft_wrap=True)
    moved = proposal.recipes
    for one in moved[:SHOWN]:
        console.print(f"  {one.kind}  {one.path}", soft_wrap=True)
    if len(moved) > SHOWN:
        console.print(f"  … and {len(moved) - SHOWN} more recipes")
    for one in proposal.blocked:
        console.print(f"  blocked  {one.path}: {one.why}", soft_wrap=True)
    if proposal.to_learn:
        console.print(f"hashes to be learned: {', '.join(proposal.to_learn)}", soft_wrap=True)
    if effects is not None:
        for effect in effects:
            if effect.kind in ("broken", "still broken"):
                console.print(f"  {effect.kind}  {effect.name}: {effect.after}", soft_wrap=True)
        console.print(f"by evaluation: {summary(effects)}", soft_wrap=True)
    err().print(f"{len(moved)} recipes {'moved' if written else 'would move'}", soft_wrap=True)
