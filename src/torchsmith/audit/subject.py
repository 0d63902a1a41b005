"""One recipe as the rules see it: what its text says, what its name means, and what the catalog expects of
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from torchsmith.audit.claims import PlacedClaim, claims_of
from torchsmith.audit.finding import Sure
from torchsmith.catalog import Catalog, CudaToolkit, Gpu, Isa, Line, LineBuild, Package, Pin
from torchsmith.catalog.ranges import version_key
from torchsmith.matrix import Flavor, Reading, Variant, try_read
from torchsmith.matrix.cells import newest_line
from torchsmith.recipe.header import Header, Owner, owner_of, read_header
from torchsmith.recipe.read import Bound, Override, Recipe, Said, Span, Value
from torchsmith.recipe.read.definitions import without_definitions

RecipeStyle = Literal["pinned", "catalog", "scratch"]
SCRATCH = ("buildPythonPackage", "mkDerivation")
TOLD = re.compile(r"torchsmith: line ([\w.]+)")
LIBRARIES = ("magma", "opencv", "triton", "ffmpeg_6-full", "frei0r")


@dataclass(frozen=True, eq=False)
class Subject:
    """A recipe with everything that is known about it. `asked` is the line by which a workspace wants it,
    `told` the line that a person names for all recipes."""

    file: str  # as findings name it
    recipe: Recipe
    catalog: Catalog
    asked: str | None = None
    told: str | None = None
    strict: bool = False  # our conventions bind it, whoever wrote it

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
    def brings_torch(self) -> bool:
        """Whether a torch is built by it: it is torch's recipe, or one of a package that needs torch."""
        return self.variant is None or self.variant.package.is_torch or self.companion

    @property
    def wraps_nightly(self) -> bool:
        """A recipe that only brings the nightly its CUDA says nothing about the build itself."""
        return self.variant is not None and self.variant.flavor is Flavor.NIGHTLY_WRAPPER

    # ---- what the text says

    @property
    def whole(self) -> Recipe:
        """The recipe that holds the substance; a wrapper leads to it."""
        return self.recipe.content

    @cached_property
    def body(self) -> Recipe:
        """The same without packages that the workspace's own templates define, as nixpkgs' do its own."""
        own = [one.package for one in self.stack if self.catalog.template_of(one.package.name)]
        return without_definitions(self.whole, [one.attr for one in own]) if own else self.whole

    @cached_property
    def header(self) -> Header | None:
        return read_header(self.recipe.text)

    @cached_property
    def owner(self) -> Owner:
        return owner_of(self.recipe.text)

    @cached_property
    def code(self) -> str:
        """The text with comments and what is switched off blanked: words there do not count."""
        data = bytearray(self.body.syntax.data)
        comments = self.body.syntax.captures.get("comment", ())
        for start, end in (*self.body.dead, *((node.start_byte, node.end_byte) for node in comments)):
            data[start:end] = b" " * (end - start)
        return data.decode()

    @cached_property
    def style(self) -> RecipeStyle:
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
            named = _bases(tuple(self.catalog.packages.values())).search(one.of)
            found.append((named[1] if named else "", one))
        return tuple(found)

    @cached_property
    def claims(self) -> tuple[PlacedClaim, ...]:
        """What its prose claims."""
        return claims_of(self.body, self.catalog, self.recipe)

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

    @cached_property
    def torch_from_elsewhere(self) -> bool:
        """Whether the companion is told a torch of another recipe, which is judged for itself."""
        if self.companion and not self.builds_torch:
            return True
        told = [one.arguments["torch"] for one in self.body.overrides if "torch" in one.arguments]
        told += [self.body.scoped["torch"]] if "torch" in self.body.scoped else []
        texts = [self.body.syntax.data[one.span.start : one.span.end].decode() for one in told]
        return self.companion and any(text.lstrip("( \n").startswith("import") for text in texts)

    @cached_property
    def stack(self) -> tuple[Variant, ...]:
        """The recipe's own variant, and those of its cell that it needs, torch among them."""
        own = self.variant
        return tuple(map(own.of, self.catalog.below(own.package))) if own else ()

    @property
    def brought(self) -> frozenset[Package]:
        """What the package needs besides torch, which its recipe brings too."""
        return frozenset(one.package for one in self.stack[:-1] if not one.package.is_torch)

    @property
    def embeds_torch(self) -> bool:
        """Whether it builds torch and a companion, each with its name, flags and meta."""
        return self.companion and self.style != "catalog" and not self.torch_from_elsewhere

    @property
    def builds_torch(self) -> bool:
        """Whether torch is put together here, and not taken as it comes."""
        return not self.companion or any(True for _ in self.overrides_of("torch", "pytorch"))

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
        """The release that the recipe is of, where something says so: a workspace, the header, a comment,
        the name, its text, or its pin. None is not known, and nothing is guessed."""
        variant = self.variant
        if variant is None:
            return None
        lines = self.catalog.lines
        stated = variant.release.line if variant.release else None
        header = self.header.facts.get("line") if self.header else None
        comment = next((found[1] for one in self.recipe.comments if (found := TOLD.search(one.value))), None)
        for named in (stated, self.asked, header, comment, self.told):
            if named in lines and lines[named].build_for(variant.cuda):
                return lines[named]
        if variant.flavor:
            return newest_line(self.catalog, variant.cuda, "nightly")
        if variant.release:
            return None
        releases = [one for one in lines.values() if not one.flavor and one.build_for(variant.cuda)]
        if self.style == "catalog":
            return next((one for one in releases if _style(one, variant) == "catalog"), None)
        return self._told_by_text([one for one in releases if one.torch])

    def _told_by_text(self, lines: list[Line]) -> Line | None:
        found = [one for one in lines if f'"{one.torch}"' in self.code or f'"{one.prefix}-' in self.code]
        replaced = [
            one.arguments
            for one in self.overrides_of("torch", "pytorch")
            if one.kind != "override" and ("src" in one.arguments or "version" in one.arguments)
        ]
        if not found and not replaced and self.said_pin and not self.torch_from_elsewhere:
            found = [one for one in lines if one.torch == self.said_pin.torch]
        return max(found, key=lambda one: version_key(one.torch)) if found else None

    @cached_property
    def build(self) -> LineBuild | None:
        """How the line is built; None also where nobody knows its nixpkgs yet."""
        build = self.line.build_for(self.variant.cuda) if self.line and self.variant else None
        return build if build and not build.lacks_pin else None

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
    def config(self) -> Mapping[str, Said[Value]]:
        """What the import of nixpkgs is configured with."""
        return {name: said for one in self.body.imports for name, said in one.config.items()}

    @property
    def at_its_pin(self) -> bool:
        """Whether what is known of the line's build holds: it was found at one pin, and holds at that one."""
        return self.pin is not None and (not self.body.pins or self.said_pin is self.pin)

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


@lru_cache(maxsize=8)
def _bases(packages: tuple[Package, ...]) -> re.Pattern[str]:
    """What an override is of: a package of the catalog by its name or attribute, or a library below."""
    names = {name for one in packages for name in (one.name, one.attr.rpartition(".")[2])} | {*LIBRARIES}
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"\b({words})\b(?!-)")


def _style(line: Line, variant: Variant) -> str:
    build = line.build_for(variant.cuda)
    return build.style if build else ""
