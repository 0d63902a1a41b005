"""One recipe as the rules see it: what its text says, what its name means, and what the catalog expects of
it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torchsmith.auditing.claims import PlacedClaim, claims_of
from torchsmith.auditing.finding import Sure
from torchsmith.catalog import CudaToolkit, Gpu, Isa, Line, LineBuild, Package, Pin, builtin_catalog
from torchsmith.matrix import Flavor, Reading, Variant
from torchsmith.recipe.header import Owner, owner_of
from torchsmith.recipe.read import (
    Bound,
    Located,
    Override,
    PackageSet,
    Recipe,
    Span,
    Value,
    expressions,
)
from torchsmith.workspace.checkout import PKGS
from torchsmith.workspace.lock import locked_nixpkgs
from torchsmith.workspace.release import ReadRecipe

# What rules ask for by its type, and what a subject calls it.
FACTS: Mapping[type, str] = {
    Variant: "variant",
    Reading: "reading",
    Line: "line",
    LineBuild: "build",
    Gpu: "gpu",
    Isa: "isa",
    CudaToolkit: "toolkit",
}

# GPUs that nixpkgs' torch leaves out of its list at every pin of the catalog: config.cudaCapabilities alone
# gives it no target, and companions none.
TORCH_DROPS = ("sm110",)


@dataclass(frozen=True, eq=False)
class Subject(ReadRecipe):
    """A recipe with everything that is known about it."""

    strict: bool = False  # our conventions bind it, whoever wrote it

    def fact(self, kind: type) -> object:
        """What is known of a kind, such as its Gpu; None where nothing is."""
        return getattr(self, FACTS[kind])

    @cached_property
    def package_sets(self) -> tuple[PackageSet, ...]:
        return expressions(self.whole)

    @cached_property
    def said_pin(self) -> Pin | None:
        """The nixpkgs that it does import, where the catalog knows it; without a name, also by a lock
        file."""
        pin = super().said_pin
        if pin is not None or self.variant is not None or self.body.pins or not self.recipe.path.is_file():
            return pin
        rev = locked_nixpkgs(self.recipe.path).get("nixpkgs")
        return next((one for one in self.catalog.pins.values() if one.rev == rev), None)

    @property
    def flox(self) -> bool:
        """Whether Flox takes the file for a package."""
        return PKGS in self.recipe.path.absolute().as_posix()

    @property
    def without_torch(self) -> bool:
        """Whether no torch is built by it as ours are: it is neither torch's recipe, nor one of a package
        that needs torch. How others build a nightly is not known."""
        if self.variant is None:
            return False
        package = self.variant.package
        return (self.flavored and not self.generated) or not (package.is_torch or package.needs_torch)

    @property
    def scratch(self) -> bool:
        """It builds torch itself, and overrides nothing of nixpkgs."""
        return self.style == "scratch"

    @property
    def alone(self) -> bool:
        """It is no companion of a torch."""
        return not self.companion

    @property
    def flavored(self) -> bool:
        return self.variant is not None and bool(self.variant.flavor)

    @property
    def wraps_nightly(self) -> bool:
        """A recipe that only brings the nightly its CUDA says nothing about the build itself."""
        return self.variant is not None and self.variant.flavor is Flavor.NIGHTLY_WRAPPER

    @cached_property
    def owner(self) -> Owner:
        return owner_of(self.recipe.text)

    @cached_property
    def claims(self) -> tuple[PlacedClaim, ...]:
        """What its prose claims."""
        return claims_of(self.body, self.catalog, self.recipe)

    def span(self, found: re.Match[str], group: int = 0) -> Span:
        """The place of something found in `code`."""
        start, end = found.span(group)
        if not self.code.isascii():
            start, end = len(self.code[:start].encode()), len(self.code[:end].encode())
        return self.body.syntax.span_at(start, end)

    def shown(self, recipe: Recipe) -> str:
        """How findings name a file that this one leads to."""
        if recipe is self.recipe:
            return self.file
        away = os.path.relpath(recipe.path, self.recipe.path.parent)
        return os.path.normpath(os.path.join(os.path.dirname(self.file), away))

    def passed_to(self, *packages: str) -> list[Override]:
        """The overrides that tell packages their arguments."""
        return [one for one in self.overrides_of(*packages) if one.kind == "override"]

    def bound(self, name: str) -> tuple[Bound, ...]:
        return self.body.bound(name)

    @property
    def bundled(self) -> frozenset[Package]:
        """What the package needs besides torch, which its recipe brings too."""
        return frozenset(one.package for one in self.stack[:-1] if not one.package.is_torch)

    @property
    def embeds_torch(self) -> bool:
        """Whether it builds torch and a companion, each with its name, flags and meta."""
        return self.companion and self.style != "flox" and not self.torch_from_elsewhere

    @property
    def seen(self) -> bool:
        """Whether the arguments of every import of nixpkgs could be read: what an overlay of another file
        does is not known."""
        return all(one.whole for one in self.body.imports)

    @property
    def convention(self) -> Sure | None:
        """How much our own conventions bind a recipe: only those that torchsmith wrote, unless told so."""
        return None if self.strict or self.header is not None else Sure.GUESS

    # ---- what the catalog expects

    @cached_property
    def line(self) -> Line | None:
        """The line of its release, where that is known and has its CUDA release."""
        line = self.catalog.lines.get(self.release.line)
        return line if line and self.variant and line.build_for(self.variant.cuda) else None

    @cached_property
    def build(self) -> LineBuild | None:
        """How the line is built; None also where nobody knows its nixpkgs yet."""
        build = self.line.build_for(self.variant.cuda) if self.line and self.variant else None
        return build if build and not build.lacks_pin else None

    @property
    def pin(self) -> Pin | None:
        """The nixpkgs that the recipe should import."""
        return self.catalog.pins.get(self.build.pin) if self.build else None

    @property
    def config(self) -> Mapping[str, Located[Value]]:
        """What the import of nixpkgs is configured with."""
        return {name: said for one in self.body.imports for name, said in one.config.items()}

    @property
    def configured(self) -> bool:
        """Whether the package set itself is told the architectures, and all of it is built for them."""
        said = self.config.get("cudaCapabilities")
        dropped = self.known_pin is not None and self.gpu is not None and self.gpu.name in TORCH_DROPS
        return said is not None and said.value != [] and not dropped

    @property
    def known_pin(self) -> Pin | None:
        """The nixpkgs that it is built from, where that is certain: the one it imports, or the one that the
        catalog's own recipes of its line take. What the package set of another caller holds is not known."""
        if self.body.pins:
            return self.said_pin
        ours = self.convention is None or (self.build is not None and self.build.style == "flox")
        return self.pin if ours else None

    @property
    def at_its_pin(self) -> bool:
        """Whether what is known of the line's build holds: it was found at one pin, and holds at that one. A
        workspace that moves a line to another pin does not know more of recipes that others wrote."""
        ours = self.convention is None or not self._moved
        return ours and self.pin is not None and self.known_pin is self.pin

    @property
    def _moved(self) -> bool:
        """Whether a workspace gives the line another pin than the catalog, with the same fixes."""
        shipped = builtin_catalog().lines.get(self.line.name) if self.line else None
        known = shipped.build_for(self.variant.cuda) if shipped and self.variant else None
        own = self.build
        return bool(known and own and own.pin != known.pin and own.fixes == known.fixes)

    @property
    def isa(self) -> Isa | None:
        return self.catalog.isas.get(self.variant.isa) if self.variant else None

    @property
    def gpu(self) -> Gpu | None:
        return self.catalog.gpus.get(self.variant.sm) if self.variant and self.variant.sm else None

    @property
    def toolkit(self) -> CudaToolkit | None:
        return self.catalog.cuda.get(self.variant.cuda) if self.variant and self.variant.cuda else None

    @property
    def generated(self) -> bool:
        """Whether its own header vouches for the recipe."""
        return self.owner == "ours"
