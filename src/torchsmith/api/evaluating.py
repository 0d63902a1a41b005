"""What recipes become: derivations, asked of Nix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.api.options import WorkspaceOption
from torchsmith.api.watch import SILENT, Watch

if TYPE_CHECKING:
    from torchsmith.nix.evaluate import EvalResult


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest:
    """Which recipes Nix evaluates, and how."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)
    separate: Annotated[bool, Option("Share nothing: a process of its own for each recipe.")] = False
    other_gpus: Annotated[
        bool, Option("Fail where something below a recipe is compiled for other GPUs than its own.")
    ] = False


def evaluate(request: EvaluateRequest, watch: Watch = SILENT) -> list[EvalResult]:
    """Each recipe's derivation, or the cause of its failure; `watch` is told of each."""
    opened, chosen = open_recipes(request.recipes, request.workspace)
    _, ask = evaluation(request.nix, workspace=opened, separate=request.separate, watch=watch)
    return ask(chosen)
