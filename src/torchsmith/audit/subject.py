"""One recipe as the rules see it: what its text says, what its name means, and what the catalog expects of
it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torchsmith.audit.claims import Place, claims_of
from torchsmith.catalog import Catalog, CudaToolkit, Gpu, Isa, Line, LineBuild, Pin
from torchsmith.matrix import Flavor, Reading, Variant, try_read
from torchsmith.matrix.cells import newest_line
from torchsmith.recipe.header import Header, Owner, owner_of, read_header
from torchsmith.recipe.read import Bound, Override, Recipe, Span

Style = Literal["pinned", "catalog", "scratch"]
SCRATCH = ("buildPythonPackage", "mkDerivation")
BASE = re.compile(r"\b(pytorch|torch|torchvision|torchaudio|magma|opencv|triton|ffmpeg_6-full|frei0r)\b(?!-)")


@dataclass(frozen=True, eq=False)
class Subject:
    """A recipe with everything that is known about it. `asked` is the line by which a workspace wants it."""

    file: str  # as findings name it
    recipe: Recipe
    catalog: Catalog
    asked: str | None = None

    # ---- what the name says

    @property
    def name(self) -> str:
        return self.recipe.name

    @cached_property
    def reading(self) -> Reading | None:
        """What the name means, where it is a package's."""
        return try_read(self.name, self.catalog)

    @property
    def variant(self) -> Variant | None:
        return self.reading.variant if self.reading else None

    @property
    def companion(self) -> bool:
        return self.variant is not None and self.variant.package.needs_torch

    @property
    def wraps_nightly(self) -> bool:
        """A recipe that only brings the nightly its CUDA says nothing about the build itself."""
        return self.variant is not None and self.variant.flavor is Flavor.NIGHTLY_WRAPPER

    # ---- what the text says

    @property
    def body(self) -> Recipe:
        """The recipe that holds the substance; a wrapper leads to it."""
        return self.recipe.content

    @cached_property
    def header(self) -> Header | None:
        return read_header(self.recipe.text)

    @cached_property
    def owner(self) -> Owner:
        return owner_of(self.recipe.text)

    @cached_property
    def code(self) -> str:
        """The text with comments blanked, so that a word in prose does not count."""
        data = bytearray(self.body.syntax.data)
        for node in self.body.syntax.captures.get("comment", ()):
            data[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
        return data.decode()

    @cached_property
    def style(self) -> Style:
        """Where its packages come from."""
        if any(word in self.code for word in SCRATCH):
            return "scratch"
        if self.body.pins or self.body.imports:
            return "pinned"
        return "catalog"

    @cached_property
    def overrides(self) -> tuple[tuple[str, Override], ...]:
        """Overrides with the package that they are of: torch, magma, ..."""
        found = []
        for one in self.body.overrides:
            named = BASE.search(one.of)
            found.append((named[1] if named else "", one))
        return tuple(found)

    @cached_property
    def claims(self) -> tuple[Place, ...]:
        """What its prose claims."""
        return claims_of(self.body, self.catalog)

    def overrides_of(self, *packages: str) -> Iterator[Override]:
        return (one for package, one in self.overrides if package in packages)

    def span(self, found: re.Match[str], group: int = 0) -> Span:
        """The place of something found in `code`."""
        start, end = found.span(group)
        if not self.code.isascii():
            start, end = len(self.code[:start].encode()), len(self.code[:end].encode())
        return self.body.syntax.span_at(start, end)

    def bound(self, name: str) -> tuple[Bound, ...]:
        return self.body.bound(name)

    @property
    def embeds_torch(self) -> bool:
        """Whether it builds torch and a companion, each with its name, flags and meta."""
        return self.companion and self.style != "catalog"

    # ---- what the catalog expects

    @cached_property
    def line(self) -> Line | None:
        """The release that the recipe is of: by workspace, header or text, else the newest."""
        variant = self.variant
        if variant is None:
            return None
        lines = self.catalog.lines
        stated = variant.release.line if variant.release else None
        for named in (stated, self.asked, self.header.facts.get("line") if self.header else None):
            if named in lines and lines[named].build_for(variant.cuda):
                return lines[named]
        if variant.flavor:
            return newest_line(self.catalog, variant.cuda, "nightly")
        having = [one for one in lines.values() if not one.flavor and one.build_for(variant.cuda)]
        if self.style == "catalog":
            return next((one for one in having if _style(one, variant) == "catalog"), None)
        having = [one for one in having if _style(one, variant) == "pinned"]
        by_text = [one for one in having if self._states(one)]
        native = [one for one in having if one.torch in self._pinned_torches]
        found = by_text or native or having
        return max(found, key=lambda one: [int(n) for n in one.torch.split(".")]) if found else None

    def _states(self, line: Line) -> bool:
        return f'"{line.torch}"' in self.code or f'"{line.prefix}-' in self.code

    @cached_property
    def _pinned_torches(self) -> set[str]:
        revs = {pin.rev.value for pin in self.body.pins if pin.rev}
        return {pin.torch for pin in self.catalog.pins.values() if pin.rev in revs}

    @cached_property
    def build(self) -> LineBuild | None:
        return self.line.build_for(self.variant.cuda) if self.line and self.variant else None

    @property
    def pin(self) -> Pin | None:
        """The nixpkgs that the recipe should import."""
        return self.catalog.pins.get(self.build.pin) if self.build else None

    @cached_property
    def said_pin(self) -> Pin | None:
        """The nixpkgs that it does import, where the catalog knows it."""
        revs = {pin.rev.value for pin in self.body.pins if pin.rev}
        return next((pin for pin in self.catalog.pins.values() if pin.rev in revs), None)

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
        """Whether the workspace or its own header vouches for the recipe."""
        return self.asked is not None or self.owner == "ours"


def _style(line: Line, variant: Variant) -> str:
    build = line.build_for(variant.cuda)
    return build.style if build else ""
