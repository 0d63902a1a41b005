"""What Nix makes of recipes, compared and counted: graphs, differences, what a change does, what is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.building.rehearsal import PREFIX, phases_of
from torchsmith.catalog import Catalog
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes
from torchsmith.cli.options import ProfileOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import CannotBuild, Conflict, Exit
from torchsmith.edit import impact as changes
from torchsmith.edit.impact import Effect
from torchsmith.matrix import Variant
from torchsmith.matrix.estimate import estimate_of
from torchsmith.nix.derivation import Difference, compare, show_derivations
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import exit_of, failures_of
from torchsmith.nix.graph import inventory_of
from torchsmith.publishing.sbom import Bom, Terms, cyclonedx, terms
from torchsmith.workspace.load import open_workspace

DerivationArgument = Annotated[
    str, Argument("A recipe's name or path, rehearsal-of-NAME, or a derivation in the store (.drv).")
]


@dataclass(frozen=True, kw_only=True)
class DiffRequest:
    """Two recipes or derivations to compare."""

    a: DerivationArgument
    b: DerivationArgument
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)


class DiffReport(msgspec.Struct, frozen=True, kw_only=True):
    """Two derivations and what differs between them."""

    a: str
    b: str
    differences: Sequence[Difference]


def diff_derivations(request: DiffRequest, reporter: Reporter = SILENT) -> DiffReport:
    """The causes of a difference, not the hashes that follow from them. Raises Conflict for a name that is
    several recipes, CannotBuild for one that does not evaluate."""
    opened = open_workspace(request.workspace)
    phases: dict[str, str] = {}
    nix, ask = evaluation(request.nix, workspace=opened, instantiate=True, phases=phases, reporter=reporter)
    paths: list[str] = []
    for name in (request.a, request.b):
        if name.endswith(".drv"):
            paths.append(name)
            continue
        _, chosen = open_recipes([name.removeprefix(PREFIX)], request.workspace)
        if len(chosen) != 1:
            raise Conflict(f"{name} is {len(chosen)} recipes", hint="name one recipe on each side")
        phases.clear()
        if name.startswith(PREFIX):
            phases |= phases_of(chosen, opened.catalog)
        [result] = ask(chosen)
        if result.evaluated is None:
            cause = result.cause
            raise CannotBuild(cause.message if cause else "it fails", where=cause.where if cause else None)
        paths.append(result.evaluated.drv_path)
    known = show_derivations(nix, sorted(set(paths)), recursive=True)
    differences = compare(known[paths[0]], known[paths[1]], known)
    return DiffReport(a=paths[0], b=paths[1], differences=differences)


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
        return exit_of([effect.cause for effect in self.effects if effect.kind == "broken" and effect.cause])


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


@dataclass(frozen=True, kw_only=True)
class GraphRequest:
    """The recipes whose packages are listed."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SbomReport:
    """The packages that go into recipes: `bom` is what --json prints, where every recipe evaluates."""

    title: str
    bom: Bom
    terms: Sequence[Terms]  # those that are not free come first
    packages: int
    built: bool  # what the results in the store hold, not what recipes name
    failed: Mapping[str, Cause]

    @property
    def exit(self) -> Exit:
        return exit_of(self.failed.values())


def sbom(request: GraphRequest, reporter: Reporter = SILENT) -> SbomReport:
    """Name, version and licence of every package that goes into recipes."""
    opened, chosen = open_recipes(request.recipes, request.workspace)
    nix, ask = evaluation(request.nix, workspace=opened, inventory=True, reporter=reporter)
    results = ask(chosen)
    inventory = inventory_of(nix, results)
    title = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} recipes"
    return SbomReport(
        title=title,
        bom=cyclonedx(inventory, title),
        terms=terms(inventory),
        packages=len(inventory.components) + len(inventory.strangers),
        built=inventory.built,
        failed=failures_of(results),
    )
