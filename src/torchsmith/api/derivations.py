"""What Nix makes of recipes, counted and compared: graphs, and what a change does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.cli.fields import Option
from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.cli.options import ProfileOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import CannotBuild, Exit
from torchsmith.core.text import grouped
from torchsmith.edit import impact as changes
from torchsmith.edit.impact import Effect
from torchsmith.matrix import Variant
from torchsmith.matrix.estimate import estimate_of
from torchsmith.nix.evaluate import EvalResult, exit_of
from torchsmith.nix.graph import graph_of
from torchsmith.nix.targets import strangers
from torchsmith.workspace.load import open_workspace


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


@dataclass(frozen=True, kw_only=True)
class ImpactRequest:
    """A workspace, and the revision of it to compare with."""

    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    against: Annotated[str, Option("The git revision to compare with.", metavar="REV")] = "HEAD"
    as_is: Annotated[bool, Option("Compare the files on disk, not what would be generated.")] = False
    nix: NixOptions = field(default_factory=NixOptions)


class ImpactReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does to each recipe."""

    summary: str
    effects: Sequence[Effect]
    hours: float  # that the recipes which change take on 16 cores, without what lies below them

    @property
    def exit(self) -> Exit:
        return exit_of([effect.after for effect in self.effects if effect.kind == "broken"])


def impact(request: ImpactRequest, reporter: Reporter = SILENT) -> ImpactReport:
    """Which recipes a change of torchsmith.toml or of the catalog turns into other builds."""
    opened = open_workspace(request.workspace, request.profile)
    _, ask = evaluation(request.nix, workspace=opened, reporter=reporter)
    folder = opened.root or Path.cwd()
    effects = changes.impact(opened, folder, request.against, ask, as_is=request.as_is)
    changed = [effect.name for effect in effects if effect.kind in ("changed", "new", "mended")]
    hours = sum(_hours(name.rpartition("/")[2], opened.catalog) for name in changed)
    return ImpactReport(summary=changes.summary(effects), effects=effects, hours=round(hours, 1))


def _hours(name: str, catalog: Catalog) -> float:
    """What the catalog estimates for a recipe by its name."""
    variant = Variant.try_parse(name, catalog)
    if variant is None:
        return 0.0
    row = estimate_of(variant, catalog)
    return row.hours + row.gpu_hours if row else 0.0
