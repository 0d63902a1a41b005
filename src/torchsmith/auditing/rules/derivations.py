"""Derivations: what real Nix makes of the recipes of a repository, held against their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchsmith.auditing.rule import WARNING, Defect, rule
from torchsmith.nix.evaluate import TREE_HINT, needs_tree
from torchsmith.nix.targets import gpu_targets

if TYPE_CHECKING:
    from torchsmith.auditing.derivations import EvaluatedRecipes


@rule("TS003", "recipe that Nix does not evaluate", over="derivations")
def nix_evaluates_it(evaluated: EvaluatedRecipes) -> Iterator[Defect]:
    """Nix, with the pinned nixpkgs or the given tree, cannot evaluate this recipe. If its nixpkgs cannot be
    downloaded, or makes no package at all for the recipe's system, this is a warning: nothing is known of the
    recipe then."""
    for file, cause in evaluated.failed.items():
        if needs_tree(cause):
            yield Defect(f"was not evaluated: {cause.message}", hint=TREE_HINT, file=file, severity=WARNING)
        else:
            yield Defect(f"does not evaluate: {cause.message}", file=file)


@rule("TS422", "derivation for another GPU", over="derivations")
def derivation_compiles_for_its_gpu(evaluated: EvaluatedRecipes) -> Iterator[Defect]:
    """The GPUs that the derivation passes to its compilers, of torch and of companions, must be the one in
    the name. What is below it, such as MAGMA, is listed by `torchsmith eval`."""
    for file, (recipe, derivation) in evaluated.recipes.items():
        own = recipe.variant.arch if recipe.variant else ""
        targets = gpu_targets(derivation, evaluated.catalog)
        others = ", ".join(sorted(targets - {own}))
        if own and others:
            too = " too" if own in targets else ""
            yield Defect(f"compiles for {others}{too}, the name says {own}", file=file)


@rule("TS722", "companion that compiles a torch of its own", WARNING, over="derivations")
def companion_builds_on_the_torch_recipe(evaluated: EvaluatedRecipes) -> Iterator[Defect]:
    """The torch of a companion must be the derivation of the PyTorch recipe of the same cell; otherwise it is
    compiled twice."""
    for file, (recipe, derivation) in evaluated.recipes.items():
        if recipe.variant is None or not recipe.variant.package.needs_torch:
            continue
        torch = evaluated.torch.get(recipe.variant.stack)
        if torch and torch not in derivation.inputs:
            yield Defect("its torch is not that of the PyTorch recipe of the same cell", file=file)


@rule("TS222", "derivation for another system", over="derivations")
def derivation_is_for_its_system(evaluated: EvaluatedRecipes) -> Iterator[Defect]:
    """The derivation's system must be the one whose compiler knows the flags."""
    for file, (recipe, derivation) in evaluated.recipes.items():
        if recipe.variant and recipe.system and derivation.system != recipe.system:
            wrong = f"is built on {derivation.system}, {recipe.variant.isa} is {recipe.system}"
            yield Defect(wrong, file=file)
