"""`torchsmith eval`: what recipes become."""

from __future__ import annotations

from typing import Annotated

from torchsmith.cli.console import exit_if, next_step, tell
from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Option
from torchsmith.edge.problem import Exit

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith eval -w b sm120 --nixpkgs sample"


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    *,
    nix: NixOptions,
    values: Annotated[
        bool, Option("What recipes ask for, told without Nix by the embedded evaluator.")
    ] = False,
    separate: Annotated[bool, Option("Share nothing: a process of its own for each recipe.")] = False,
    json: JsonOption = False,
) -> None:
    """Evaluate recipes to derivations, many in one process, with the pinned nixpkgs or a tree of yours.

    A recipe that fails costs no other: its error is shortened to the cause, with file and line. Evaluation
    reads only what git tracks there and nixpkgs, downloads only pinned tarballs, and builds nothing. The exit
    code is 1 when a recipe fails, 3 when all that failed are downloads.
    """
    from torchsmith.cli import eval_view as view
    from torchsmith.nix.evaluate import exit_of
    from torchsmith.workspace.proved import remember

    opened, chosen = open_recipes(recipes, workspace)
    if values:
        from torchsmith.nix.embedded import ask_all

        told = ask_all([(recipe.name, recipe.path, recipe.system) for recipe in chosen], seconds=nix.timeout)
        view.print_values(told, as_json=json)
        code = Exit.NOT_RIGHT if any(answer.values is None for answer in told) else Exit.FINE
    else:
        _, evaluate = evaluation(nix, workspace=opened, separate=separate)
        results = evaluate(chosen)
        view.print_results(results, as_json=json)
        if opened.root is not None:
            good = {one.name for one in results if one.ok}
            settled = remember(opened.root, opened.matrix.cells, opened.catalog, good)
            if settled:
                tell(f"{settled} cells that only this workspace claimed are proved to evaluate")
        code = exit_of([one.cause.message for one in results if one.cause])
        if not code:
            next_step("build", "--dry-run", *(recipes or ()), workspace=workspace, nixpkgs=nix.nixpkgs)
    exit_if(code)
