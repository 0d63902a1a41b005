"""`torchsmith eval`: what recipes become."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.evaluating import EvaluateRequest, evaluate
from torchsmith.api.fields import Option
from torchsmith.api.nix_options import open_recipes
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import exit_if, next_step, tell
from torchsmith.cli.progress import Terminal
from torchsmith.core.problem import Exit

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith eval -w b sm120 --nixpkgs sample"


def run(
    *,
    request: EvaluateRequest,
    values: Annotated[
        bool, Option("What recipes ask for, told without Nix by the embedded evaluator.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Evaluate recipes to derivations, many in one process, with the pinned nixpkgs or a tree of yours.

    A recipe that fails costs no other: its error is shortened to the cause, with file and line. Evaluation
    reads only what git tracks there and nixpkgs, downloads only pinned tarballs, and builds nothing. The exit
    code is 1 when a recipe fails, 3 when all that failed are downloads. With [bold]--other-gpus[/bold] the
    derivations are put into the store, and 1 also says that MAGMA, NCCL or another library below a recipe is
    compiled for more GPUs than its own.
    """
    from torchsmith.cli import eval_view as view
    from torchsmith.nix.evaluate import exit_of
    from torchsmith.workspace.load import open_workspace
    from torchsmith.workspace.proved import remember

    if values:
        from torchsmith.nix.embedded import ask_all

        _, chosen = open_recipes(request.recipes, request.workspace)
        asked = [(recipe.name, recipe.path, recipe.system) for recipe in chosen]
        told = ask_all(asked, seconds=request.nix.timeout)
        view.print_values(told, as_json=json)
        code = Exit.NOT_RIGHT if any(answer.values is None for answer in told) else Exit.FINE
    else:
        results = evaluate(request, Terminal())
        view.print_results(results, as_json=json)
        opened = open_workspace(request.workspace)
        if opened.root is not None:
            good = {one.name for one in results if one.ok}
            settled = remember(opened.root, opened.matrix.cells, opened.catalog, good)
            if settled:
                tell(f"{settled} cells that only this workspace claimed are proved to evaluate")
        code = exit_of([result.cause.message for result in results if result.cause])
        if request.other_gpus:
            from torchsmith.api.derivations import GraphRequest, graph
            from torchsmith.cli.verbs.graph import print_other_gpus

            below = graph(GraphRequest(recipes=request.recipes, workspace=request.workspace, nix=request.nix))
            print_other_gpus(below)
            code = code or (Exit.NOT_RIGHT if below.other_gpus else Exit.FINE)
        if not code:
            words = ("build", "--dry-run", *(request.recipes or ()))
            next_step(*words, workspace=request.workspace, nixpkgs=request.nix.nixpkgs)
    exit_if(code)
