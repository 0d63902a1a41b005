"""Recipes as text: a variant and its line in, one .nix file out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchsmith.catalog import Catalog, CudaPackage, CudaVersion, Package, Pin
from torchsmith.core.problem import Invalid, Where
from torchsmith.matrix import Cell, Flavor
from torchsmith.recipe.header import with_header
from torchsmith.recipe.template import TemplateValue, lines_of, render, template
from torchsmith.recipe.values import CellFacts, RecipeOptions, cuda_package_values

MARK = "torchsmithPackage"  # what a probe calls a package of the matrix in its derivation


def about(cell: Cell) -> str:
    """What the header of a recipe says of it."""
    return f"variant={cell.name} line={cell.line}"


def family(facts: CellFacts) -> str:
    """The template of a cell's recipe."""
    variant = facts.variant
    if facts.build.style == "nightly":
        wrapper = variant.flavor is Flavor.NIGHTLY_WRAPPER
        kind = "wrapper" if wrapper else "torch" if variant.package.is_torch else "companion"
        return f"nightly-{kind}.nix"
    if facts.build.style == "flox":
        return "catalog-gpu.nix" if variant.cuda else "catalog-cpu.nix"
    if not variant.package.is_torch:
        return "companion.nix" if variant.package.needs_torch else "package.nix"
    return "torch-gpu.nix" if variant.toolkit else "torch-cpu.nix"


def check_nix(text: str, places: Mapping[int, Where]) -> None:
    """Raise Invalid, with the line of the template, if a recipe's text is not Nix."""
    from torchsmith.recipe.read.syntax import Unreadable, parse

    try:
        parse(text.encode(), "recipe")
    except Unreadable as fault:
        line = fault.where.line if fault.where else 0
        near = next((places[number] for number in range(line, 0, -1) if number in places), None)
        raise Invalid(fault.message, hint="what it makes is not Nix", where=near or fault.where) from None


class RecipeWriter:
    """Writes recipes of one workspace; what cells have in common is looked up once."""

    def __init__(self, catalog: Catalog, options: RecipeOptions) -> None:
        self.catalog = catalog
        self.options = options
        self._common: dict[object, dict[str, TemplateValue]] = {}

    def recipe(self, cell: Cell) -> str:
        """A recipe that is complete in itself."""
        facts = CellFacts(cell, self.catalog, self.options)
        # The nightly's common part names its cell.
        key: object = cell.name if facts.build.style == "nightly" else facts.common_key
        own = facts.own_values()
        if key not in self._common:
            self._common[key] = facts.common_values()
            self._check(facts, self._common[key] | own)
        body = render(template(family(facts)), self._common[key] | own)
        return with_header(body, about(cell), ".nix")

    def _check(self, facts: CellFacts, values: dict[str, TemplateValue]) -> None:
        """What a template of the workspace's own makes has to be Nix."""
        if any(self.catalog.template_of(member.name) for member in facts.members):
            check_nix(*lines_of(template(family(facts)), values))

    def takes_inputs(self, cell: Cell) -> bool:
        """Whether a recipe is called with packages, as Flox does, instead of importing its own pin."""
        build = self.catalog.lines[cell.line].build_for(cell.variant.toolkit)
        pinned = build is None or build.style == "pinned"
        return not pinned and cell.variant.flavor is not Flavor.NIGHTLY_WRAPPER

    def probe(self, cell: Cell, package: Package) -> tuple[str, dict[int, Where]]:
        """A recipe that is not built: a package of nixpkgs or of a template, and what of the matrix is
        below it marked; with it the lines that come from templates."""
        facts = CellFacts(cell, self.catalog, self.options)
        own = self.catalog.template_of(package.name)
        others = set(self.catalog.packages.values()) - {package, self.catalog.torch}
        values: dict[str, TemplateValue] = {
            "probed": package.attr,
            "mark": MARK,
            "torchName": self.catalog.torch.name,
            "marks": [
                {"markAttr": other.attr, "markName": other.name, "markBase": facts.unfixed(other, "pprev")}
                for other in self.catalog.packages.values()
                if other in others and "." not in other.attr
            ],
            "own": bool(own),
            "base": facts.own_template(own, "pprev") if own else "",
        }
        common = facts.common_values() | facts.package_values(package)
        return lines_of(template("probe.nix"), common | facts.own_values() | values)

    def cuda_package(self, package: CudaPackage, cuda: CudaVersion, pin: Pin) -> str:
        """A recipe of build-cudatoolkit."""
        body = render(template("cuda-package.nix"), cuda_package_values(package, cuda, pin, self.catalog))
        return with_header(body, f"package={package.name}-{cuda.slug} cuda={cuda}", ".nix")

    def default_nix(
        self,
        pinned: Sequence[str],
        with_inputs: Sequence[Cell] = (),
        package: Package | None = None,
        companions: Sequence[Package] = (),
    ) -> str:
        """Every recipe of a repo as an attribute, for `nix-build -A NAME`; those in `with_inputs` are called
        with packages. Cells of a package get an environment too, with the companions of their cell."""
        stem = f"{package.name}-" if package else ""
        own = [name for name in pinned if package and name.startswith(stem)]
        files = [f'(./.flox/pkgs + "/{stem}${{cell}}.nix")'] + [
            f'(./.flox/pkgs + "/{companion.name}-${{cell}}.nix")'
            if package and companion.folder == package.folder
            else f'(./.. + "/{companion.folder}/.flox/pkgs/{companion.name}-${{cell}}.nix")'
            for companion in companions
        ]
        on_x86 = [c.name for c in with_inputs if self.catalog.isas[c.variant.isa].platform == "x86_64-linux"]
        values: dict[str, TemplateValue] = {
            "pinned": tuple(pinned),
            "cells": [name.removeprefix(stem) for name in own],
            "files": files,
            "package": package.name if package else "",
            "called": bool(with_inputs),
            "calledOnX86": on_x86,
            "calledOnArm": [cell.name for cell in with_inputs if cell.name not in on_x86],
        }
        return with_header(render(template("default.nix"), values), "file=default.nix", ".nix")
