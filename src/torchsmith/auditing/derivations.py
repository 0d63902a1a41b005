"""The third depth: recipes evaluated by real Nix to derivations, and checked by those."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.auditing.context import Context, FileFindings
from torchsmith.auditing.suppress import unmuted
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Where
from torchsmith.core.text import grouped
from torchsmith.matrix import Variant
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.graph import graph_of
from torchsmith.nix.targets import PHASES, foreign_targets
from torchsmith.nix.tool import find_nix
from torchsmith.recipe.header import content_hash
from torchsmith.workspace.checkout import RecipeFile, Repository


@dataclass(frozen=True, slots=True)
class BuiltRecipe:
    """A recipe and its derivation, as far as the rules ask."""

    file: str
    name: str
    variant: Variant | None
    system: str
    essence: str  # equal for derivations that differ in names alone
    architectures: str
    below: frozenset[str]
    others: Mapping[str, tuple[str, ...]]  # builds below it that are for other GPUs besides, and for which


@dataclass(frozen=True, slots=True)
class EvaluatedWorkspace:
    """The recipes of a repository as derivations; `torch` are the PyTorch recipes of all repositories."""

    recipes: tuple[BuiltRecipe, ...]
    failed: tuple[tuple[str, str], ...]
    torch: Mapping[str, str]
    catalog: Catalog


def check_derivations(
    folders: Sequence[Repository],
    context: Context,
    trees: Mapping[str, Path],
    addresses: Sequence[str] = (),
) -> Iterator[FileFindings]:
    """What the derivations give away; `addresses` may be downloaded besides nixpkgs."""
    nix = find_nix()
    recipes = {folder.label_of(recipe.path): recipe for folder in folders for recipe in folder.recipes}
    requests = [EvaluationRequest(label, recipe.path, recipe.system) for label, recipe in recipes.items()]
    results = evaluate(
        requests,
        nix,
        EvaluationOptions(trees=trees, addresses=addresses, cache=ResultCache(), instantiate=True),
    )
    graph = graph_of(nix, results)
    own = {name: recipe.variant.arch for name, recipe in recipes.items() if recipe.variant}
    others = grouped(
        (recipe, (foreign.name, foreign.gpus))
        for foreign in foreign_targets(
            graph, {name: arch for name, arch in own.items() if arch}, context.catalog
        )
        for recipe in foreign.recipes
    )
    torch = {
        variant.stack: result.evaluated.drv_path
        for result in results
        if result.evaluated and (variant := recipes[result.name].variant) and variant.package.is_torch
    }
    for folder in folders:
        mine = [result for result in results if recipes[result.name].repo == folder.root]
        read = (
            (result.name, graph.derivations[result.evaluated.drv_path]) for result in mine if result.evaluated
        )
        good = tuple(
            _recipe(recipes[name], name, derivation, dict(others.get(name, []))) for name, derivation in read
        )
        failed = tuple(
            (result.name, result.cause.message if result.cause else "") for result in mine if not result.ok
        )
        built = EvaluatedWorkspace(good, failed, torch, context.catalog)
        for finding in context.findings("derivations", Where(folder.label), built):
            recipe = recipes.get(finding.where.file)
            counted, silenced = unmuted([finding], recipe.text or "" if recipe else "")
            yield FileFindings(counted, silenced=silenced)


def _recipe(
    recipe: RecipeFile, file: str, derivation: Derivation, others: Mapping[str, tuple[str, ...]]
) -> BuiltRecipe:
    return BuiltRecipe(
        file=file,
        name=recipe.attr,
        variant=recipe.variant,
        system=derivation.system,
        essence=_essence(derivation) if recipe.variant else "",
        architectures=_architectures(derivation.env),
        below=frozenset(derivation.inputs),
        others=others,
    )


ARCHITECTURES = re.compile(r"^\s*(?:export\s+)?TORCH_CUDA_ARCH_LIST=[\"']?([\d.;, +PTXaf]+)", re.MULTILINE)


def _architectures(env: Mapping[str, str]) -> str:
    """What the compiler gets: the last that a phase exports, or the variable of the derivation."""
    exported = [match[1].strip() for name in PHASES for match in ARCHITECTURES.finditer(env.get(name, ""))]
    return exported[-1] if exported else env.get("TORCH_CUDA_ARCH_LIST", "")


def _essence(derivation: Derivation) -> str:
    """All that makes the result, without the names that end up in paths."""
    names = {"name", "pname", *derivation.outputs}
    env = {key: value for key, value in derivation.env.items() if key not in names}
    text = json.dumps([sorted(env.items()), sorted(derivation.inputs), derivation.system])
    for path in (output.path for output in derivation.outputs.values() if output.path):
        text = text.replace(str(path), "")
    return content_hash(text)
