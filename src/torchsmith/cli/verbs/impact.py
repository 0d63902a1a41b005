"""`torchsmith impact`: what a change does, by derivation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixOptions
from torchsmith.api.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.console import answer, exit_if, next_step, tell, write
from torchsmith.cli.evaluation import evaluation
from torchsmith.edit.impact import Effect, impact, summary

EXAMPLE = "torchsmith init b && torchsmith generate -w b --commit && torchsmith impact -w b --nixpkgs sample"


class ImpactDocument(msgspec.Struct, frozen=True):
    """What a change does to each recipe."""

    summary: str
    effects: Sequence[Effect]


def run(
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    against: Annotated[str, Option("The git revision to compare with.", metavar="REV")] = "HEAD",
    as_is: Annotated[
        bool, Option("Compare the files as they lie there, not what would be generated.")
    ] = False,
    *,
    nix: NixOptions,
    json: JsonOption = False,
) -> None:
    """Say which recipes a change of torchsmith.toml or of the catalog turns into other builds.

    What the workspace asks for now is evaluated beside what a git revision holds: a recipe whose derivation
    is the same need not be built again. The exit code is 1 when a recipe no longer evaluates.
    """
    from torchsmith.nix.evaluate import exit_of
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace, profile)
    _, evaluate = evaluation(nix, workspace=opened)
    found = impact(opened, opened.root or Path.cwd(), against, evaluate, as_is=as_is)
    answer(ImpactDocument(summary(found), found), _print_effects, as_json=json)
    exit_if(exit_of([effect.after for effect in found if effect.kind == "broken"]))
    if any(effect.kind in ("changed", "new", "mended") for effect in found):
        next_step("build", "--dry-run", workspace=workspace, nixpkgs=nix.nixpkgs, why="what would it take?")


def _print_effects(found: ImpactDocument) -> None:
    for effect in found.effects:
        if effect.kind != "identical":
            write(f"{effect.kind:12} {effect.name}  {effect.after or effect.before}")
    tell(found.summary)
