"""What Nix makes of recipes, counted and compared: graphs, and what a change does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import CannotBuild, Exit
from torchsmith.core.text import grouped
from torchsmith.nix.evaluate import EvalResult, exit_of
from torchsmith.nix.graph import graph_of
from torchsmith.nix.targets import strangers


def failures_of(results: Sequence[EvalResult]) -> dict[str, str]:
    """Recipes that do not evaluate, each with its cause and the place of it."""
    return {
        result.name: str(CannotBuild(result.cause.message, where=result.cause.where))
        for result in results
        if result.cause is not None
    }


@dataclass(frozen=True, kw_only=True)
class GraphRequest:
    """The recipes whose derivations are looked at."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)


class HeavyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A long build and the recipes above it."""

    kind: str
    name: str
    drvPath: str
    shared: bool
    recipes: tuple[str, ...]


class OtherTargets(msgspec.Struct, frozen=True, kw_only=True):
    """A derivation that compiles for GPUs besides the own one of recipes above it."""

    name: str
    gpus: tuple[str, ...]  # sm90, gfx942
    recipes: tuple[str, ...]


class GraphReport(msgspec.Struct, frozen=True, kw_only=True):
    """What lies below recipes."""

    FORMAT: ClassVar = 2
    recipes: Mapping[str, str]  # the derivation of each
    derivations: int
    downloads: int
    heavy: list[HeavyRow]
    gpu_recipes: int  # recipes for one GPU
    other_gpus: list[OtherTargets]  # code for other GPUs than the recipe's own
    failed: Mapping[str, str]  # recipes that do not evaluate, and why

    @property
    def exit(self) -> Exit:
        return exit_of(self.failed.values())


def graph(request: GraphRequest, reporter: Reporter = SILENT) -> GraphReport:
    """Count the builds below recipes, and find which of the long ones they share."""
    opened, chosen = open_recipes(request.recipes, request.workspace)
    nix, ask = evaluation(request.nix, workspace=opened, instantiate=True, reporter=reporter)
    results = ask(chosen)
    below = graph_of(nix, results)
    own = {recipe.name: recipe.variant.arch for recipe in chosen if recipe.variant and recipe.variant.arch}
    others = grouped(
        ((stranger.derivation, stranger.others), stranger.recipe)
        for stranger in strangers(below, own, opened.catalog)
    )
    return GraphReport(
        recipes=below.recipes,
        derivations=len(below.users),
        downloads=below.downloads,
        heavy=[
            HeavyRow(
                kind=build.kind,
                name=build.derivation.name,
                drvPath=build.derivation.path,
                shared=build.shared,
                recipes=build.users,
            )
            for build in below.heavy
        ],
        gpu_recipes=len(own.keys() & below.recipes.keys()),
        other_gpus=[
            OtherTargets(name=name, gpus=gpus, recipes=tuple(recipes))
            for (name, gpus), recipes in others.items()
        ],
        failed=failures_of(results),
    )
