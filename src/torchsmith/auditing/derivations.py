"""The second depth: recipes evaluated by real Nix to derivations, and checked by those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.auditing.context import Context, FileFindings
from torchsmith.auditing.suppress import unmuted
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Where
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.derivation import Derivation, show_derivations
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate, failures_of, reachable
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.checkout import RecipeFile, Repository


@dataclass(frozen=True, slots=True)
class EvaluatedRecipes:
    """The recipes of a repository that evaluate, with their derivations, and why others do not, by their
    labels; `torch` are the PyTorch recipes of all repositories."""

    recipes: Mapping[str, tuple[RecipeFile, Derivation]]
    failed: Mapping[str, Cause]
    torch: Mapping[str, str]
    catalog: Catalog


def check_derivations(
    folders: Sequence[Repository],
    context: Context,
    trees: Mapping[str, Path],
    addresses: Sequence[str] = (),
) -> Iterator[FileFindings]:
    """The findings of rules over derivations; `addresses` may be downloaded besides nixpkgs."""
    nix = find_nix()
    recipes = {folder.label_of(recipe.path): recipe for folder in folders for recipe in folder.recipes}
    requests = [EvaluationRequest(label, recipe.path, recipe.system) for label, recipe in recipes.items()]
    options = EvaluationOptions(trees=trees, addresses=addresses, cache=ResultCache(), instantiate=True)
    results = reachable(evaluate(requests, nix, options))
    paths = {result.name: result.evaluated.drv_path for result in results if result.evaluated}
    derivations = show_derivations(nix, sorted({*paths.values()}))
    torch = {
        variant.stack: path
        for label, path in paths.items()
        if (variant := recipes[label].variant) and variant.package.is_torch
    }
    causes = failures_of(results)
    for folder in folders:
        own = [label for label, recipe in recipes.items() if recipe.repo == folder.root]
        evaluated = EvaluatedRecipes(
            {label: (recipes[label], derivations[paths[label]]) for label in own if label in paths},
            {label: causes[label] for label in own if label in causes},
            torch,
            context.catalog,
        )
        for finding in context.findings("derivations", Where(folder.label), evaluated):
            recipe = recipes.get(finding.where.file)
            counted, silenced, _ = unmuted(
                [finding], {finding.where.file: recipe.text or "" if recipe else ""}
            )
            yield FileFindings(counted, silenced=silenced)
