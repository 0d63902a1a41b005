"""The graph below a set of recipes: how many builds, and which of the long ones are shared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

from torchsmith.catalog import Catalog
from torchsmith.core.text import grouped
from torchsmith.nix.derivation import Derivation, show_derivations
from torchsmith.nix.evaluate import EvalResult
from torchsmith.nix.tool import Nix


@dataclass(frozen=True, slots=True)
class LongBuild:
    """A derivation that takes from many minutes to hours, and the recipes that need it."""

    kind: str  # the package of the catalog's estimates
    name: str
    drv_path: str
    recipes: tuple[str, ...]


class Members:
    """Sets that are written as numbers, a bit for each of some names; equal sets are one value."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.known: dict[int, tuple[str, ...]] = {}

    def of(self, mask: int) -> tuple[str, ...]:
        """The names of a set, in their order."""
        if mask not in self.known:
            bits = reversed(f"{mask:b}")
            self.known[mask] = tuple(name for name, bit in zip(self.names, bits, strict=False) if bit == "1")
        return self.known[mask]


@dataclass(frozen=True)
class Graph:
    """Derivations by path, and the recipes on top of them."""

    derivations: Mapping[str, Derivation]
    recipes: Mapping[str, str]  # name -> its derivation

    @cached_property
    def below(self) -> Mapping[str, frozenset[str]]:
        """Everything that a recipe needs to be built, itself included."""
        paths = grouped((name, path) for path, names in self.users.items() for name in names)
        return {name: frozenset(paths[name]) for name in self.recipes}

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """The recipes above each derivation."""
        masks: dict[str, int] = dict.fromkeys(self.derivations, 0)
        for at, path in enumerate(self.recipes.values()):
            masks[path] = masks.get(path, 0) | 1 << at
        above: dict[str, list[str]] = {path: [] for path in masks}
        for path, derivation in self.derivations.items():
            for below in derivation.inputs:
                if below in above:
                    above[below].append(path)
        for path in TopologicalSorter(above).static_order():  # users before what they use
            for user in above[path]:
                masks[path] |= masks[user]
        members = Members(list(self.recipes))
        return {path: members.of(mask) for path, mask in masks.items() if mask}

    def long_builds(self, catalog: Catalog) -> list[LongBuild]:
        """The long builds, kind by kind, most shared first."""
        builds = [
            LongBuild(kind, self.derivations[path].name, path, names)
            for path, names in self.users.items()
            if path in self.derivations and (kind := kind_of(self.derivations[path], catalog))
        ]
        kinds = [estimate.package for estimate in catalog.estimates.values()]
        return sorted(builds, key=lambda build: (kinds.index(build.kind), -len(build.recipes), build.name))

    @property
    def downloads(self) -> int:
        return sum(1 for path in self.users if path in self.derivations and self.derivations[path].fixed)


def graph_of(nix: Nix, results: Sequence[EvalResult]) -> Graph:
    """The graph below the recipes that evaluate, which have to be instantiated."""
    recipes = {result.name: result.evaluated.drv_path for result in results if result.evaluated}
    paths = sorted(set(recipes.values()))
    return Graph(show_derivations(nix, paths, recursive=True) if paths else {}, recipes)


def kind_of(derivation: Derivation, catalog: Catalog) -> str:
    """The package of the catalog's estimates that a derivation builds; empty for every other derivation, for
    downloads, and for what a single command makes, such as torch's source of many repositories."""
    if derivation.fixed or "buildCommand" in derivation.env:
        return ""
    return next(
        (
            estimate.package
            for estimate in catalog.estimates.values()
            if (estimate.pnames and re.fullmatch(estimate.pnames, derivation.pname))
            or (estimate.variable and estimate.variable in derivation.env)
        ),
        "",
    )
