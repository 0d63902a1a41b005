"""What a clone's recipes evaluate to, compared with what was built and verified: the same derivations, with
the pins' own nixpkgs, whose outputs are complete in the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from torchsmith.matrix import package_name
from torchsmith.nix.evaluate import EvalResult, EvaluationOptions, evaluate
from torchsmith.nix.store import damaged_paths, deriver
from torchsmith.nix.tool import Nix, find_nix
from torchsmith.record import Built, Record
from torchsmith.workspace.checkout import PKGS, RecipeFile, package_paths
from torchsmith.workspace.load import Workspace

WhyUnverified = Callable[[str, Built], str]  # a name and its build; empty: it is verified
TWICE = "its commit has another package that Flox takes for the same one"
OTHER = (
    "in a clean clone it evaluates to {found} and not to {built}, which was built: it changed, or it depends"
    " on its folder or on files that are not committed; build and verify it again"
)


def unpublishable(
    recipes: Sequence[RecipeFile],
    record: Record,
    workspace: Workspace,
    why_unverified: WhyUnverified,
) -> dict[str, str]:
    """Why recipes of a clone may not be published, by name: each must evaluate to a derivation that was built
    and verified under that name. Raises MissingRequirement without Nix."""
    nix = find_nix()
    reasons = {recipe.name: TWICE for recipe in recipes if _is_twice(recipe)}
    remaining = [recipe for recipe in recipes if recipe.name not in reasons]
    results = evaluate(remaining, nix, EvaluationOptions(addresses=workspace.addresses))
    for result in results:
        if why := _why_not(result, record, nix, why_unverified):
            reasons[result.name] = why
    return reasons


def _why_not(result: EvalResult, record: Record, nix: Nix, why_unverified: WhyUnverified) -> str:
    if result.evaluated is None:
        return f"it does not evaluate: {result.cause.message if result.cause else ''}"
    derivation = result.evaluated.drv_path
    builds = record.builds(result.name)
    built = next((build for build in builds if _derivation_of(build, nix) == derivation), None)
    if built is None and not builds:
        return "it was not built here; torchsmith build builds it"
    if built is None:
        last = _derivation_of(builds[0], nix)
        if not last:
            return f"the store does not know the derivation of {builds[0].outputs[0]}; build it with Nix"
        return OTHER.format(found=derivation, built=last)
    if not built.outputs or not {*built.outputs} <= {*result.evaluated.outputs.values()}:
        return "the record names outputs that are not those of its derivation; build and verify it again"
    return _missing_output(built.outputs, nix) or why_unverified(result.name, built)


def _derivation_of(build: Built, nix: Nix) -> str:
    """The derivation that was built; of a build by Flox, which reports none, the one that the store knows."""
    return build.derivation or (deriver(nix, build.outputs[0]) if build.outputs else "")


def _is_twice(recipe: RecipeFile) -> bool:
    """Whether the clone has another package that Flox takes for the same one."""
    names = map(package_name, map(Path, package_paths(str(recipe.repo / PKGS))))
    return [name.replace("-", "_") for name in names].count(recipe.attr.replace("-", "_")) > 1


def _missing_output(outputs: Sequence[str], nix: Nix) -> str:
    """Why outputs cannot be published: the store no longer has them, or has something else in their place."""
    stored = os.environ.get("NIX_STORE_DIR") or "/nix/store"
    known = [path for path in outputs if Path(path).is_relative_to(stored)]
    wrong = [path for path in outputs if path not in known] + damaged_paths(nix, known)
    return f"the store has no {wrong[0]} as it was built; build and verify it again" if wrong else ""
