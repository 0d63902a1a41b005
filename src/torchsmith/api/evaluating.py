"""What recipes become: derivations, asked of Nix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import msgspec

from torchsmith.api.derivations import GraphReport, GraphRequest, graph
from torchsmith.cli.fields import Option
from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import Exit
from torchsmith.nix.evaluate import EvalResult, exit_of
from torchsmith.workspace.proved import remember


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest:
    """Which recipes are evaluated, and how."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)
    separate: Annotated[bool, Option("Evaluate each recipe in a process of its own.")] = False
    other_gpus: Annotated[
        bool, Option("Fail if a dependency is compiled for other GPUs than the recipe's.")
    ] = False


class EvaluateReport(msgspec.Struct, frozen=True, kw_only=True):
    """Recipes as Nix evaluates them."""

    FORMAT: ClassVar[int] = 3
    recipes: Sequence[EvalResult]
    proved: int = 0  # cells that only this workspace claimed, and that evaluate
    below: GraphReport | None = None  # with --other-gpus

    @property
    def exit(self) -> Exit:
        """What the answer is for a program: what is merely out of reach says nothing of a recipe."""
        code = exit_of([result.cause.message for result in self.recipes if result.cause])
        return code or (Exit.CHECK_FAILED if self.below and self.below.other_gpus else Exit.OK)


def evaluate(request: EvaluateRequest, reporter: Reporter = SILENT) -> EvaluateReport:
    """Each recipe's derivation, or the cause of its failure; `reporter` is told of each."""
    opened, chosen = open_recipes(request.recipes, request.workspace)
    _, ask = evaluation(request.nix, workspace=opened, separate=request.separate, reporter=reporter)
    results = ask(chosen)
    proved = 0
    if opened.root is not None:
        good = {result.name for result in results if result.ok}
        proved = remember(opened.root, opened.matrix.cells, opened.catalog, good)
    below = None
    if request.other_gpus:
        below = graph(GraphRequest(recipes=request.recipes, workspace=request.workspace, nix=request.nix))
    return EvaluateReport(recipes=results, proved=proved, below=below)
