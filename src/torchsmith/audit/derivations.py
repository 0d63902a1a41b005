"""The third depth: recipes evaluated by real Nix to derivations, and judged by those."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.audit.context import Context, Judged, finding_of
from torchsmith.catalog import Catalog
from torchsmith.edge.problem import Where
from torchsmith.matrix import Variant
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.derivation import Derivation, show_derivations
from torchsmith.nix.evaluate import EvalResult, EvaluationRequest, evaluate
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.checkout import RecipeFile, Repository

PHASES = ("postPatch", "preConfigure", "postConfigure", "preBuild")  # in their order


@dataclass(frozen=True, slots=True)
class BuiltRecipe:
    """A recipe and its derivation, as far as the rules ask."""

    file: str
    name: str
    variant: Variant | None
    system: str
    drv: str
    essence: str  # equal for derivations that differ in names alone
    architectures: str
    below: frozenset[str]


@dataclass(frozen=True, slots=True)
class EvaluatedWorkspace:
    """The recipes of a repository as derivations; `torch` are the PyTorch recipes of all repositories."""

    recipes: tuple[BuiltRecipe, ...]
    failed: tuple[tuple[str, str], ...]
    torch: Mapping[str, str]
    catalog: Catalog


def judge_derivations(
    folders: Sequence[Repository],
    context: Context,
    trees: Mapping[str, Path],
    addresses: Sequence[str] = (),
) -> Iterator[Judged]:
    """What the derivations give away; `addresses` may be downloaded besides nixpkgs."""
    nix = find_nix()
    recipes = {folder.show(one.path): one for folder in folders for one in folder.recipes}
    requests = [EvaluationRequest(shown, one.path, one.system) for shown, one in recipes.items()]
    results = evaluate(requests, nix, trees=trees, addresses=addresses, cache=ResultCache(), instantiate=True)
    shown = show_derivations(nix, [one.evaluated.drv_path for one in results if one.evaluated])
    torch = {
        variant.stack: result.evaluated.drv_path
        for result in results
        if result.evaluated and (variant := recipes[result.name].variant) and variant.package.is_torch
    }
    for folder in folders:
        mine = [(recipes[one.name], one) for one in results if recipes[one.name].repo == folder.root]
        built = _built(mine, shown, torch, context.catalog)
        for rule in context.rules("derivations", "repo"):
            for defect in rule.check(built):
                found = finding_of(rule, defect, Where(defect.file or folder.shown), "")
                recipe = recipes.get(defect.file)
                yield Judged.of([found], recipe.text or "" if recipe else "")


def _built(
    results: Sequence[tuple[RecipeFile, EvalResult]],
    shown: Mapping[str, Derivation],
    torch: Mapping[str, str],
    catalog: Catalog,
) -> EvaluatedWorkspace:
    recipes = tuple(
        _recipe(recipe, one, shown[one.evaluated.drv_path]) for recipe, one in results if one.evaluated
    )
    failed = tuple((one.name, one.cause.message if one.cause else "") for _, one in results if not one.ok)
    return EvaluatedWorkspace(recipes, failed, torch, catalog)


def _recipe(recipe: RecipeFile, result: EvalResult, derivation: Derivation) -> BuiltRecipe:
    assert result.evaluated is not None
    return BuiltRecipe(
        file=result.name,
        name=recipe.attr,
        variant=recipe.variant,
        system=derivation.system,
        drv=result.evaluated.drv_path,
        essence=_essence(derivation) if recipe.variant else "",
        architectures=_architectures(derivation.env),
        below=frozenset(derivation.inputs),
    )


ARCHITECTURES = re.compile(r"^\s*(?:export\s+)?TORCH_CUDA_ARCH_LIST=[\"']?([\d.;, +PTXaf]+)", re.MULTILINE)


def _architectures(env: Mapping[str, str]) -> str:
    """What the compiler is told: the last that a phase exports, or the variable of the derivation."""
    told = [found[1].strip() for name in PHASES for found in ARCHITECTURES.finditer(env.get(name, ""))]
    return told[-1] if told else env.get("TORCH_CUDA_ARCH_LIST", "")


def _essence(derivation: Derivation) -> str:
    """All that makes the result, without the names that end up in paths."""
    names = {"name", "pname", *derivation.outputs}
    env = {key: value for key, value in derivation.env.items() if key not in names}
    own = [output.path for output in derivation.outputs.values() if output.path]
    text = json.dumps([sorted(env.items()), sorted(derivation.inputs), derivation.system])
    for path in own:
        text = text.replace(str(path), "")
    return hashlib.sha256(text.encode()).hexdigest()
