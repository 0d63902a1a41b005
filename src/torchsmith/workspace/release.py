"""Which torch release a recipe is of, and what says so: its name, a workspace, its header, a comment or its
code. Nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from torchsmith.catalog import Catalog, Line, Package, Pin
from torchsmith.core.problem import Problem
from torchsmith.matrix import Accepted, Reading, Variant, assess, try_read
from torchsmith.matrix.cells import newest_line
from torchsmith.matrix.variant import package_name
from torchsmith.recipe.header import Header, read_header
from torchsmith.recipe.read import Override, Recipe, read_recipe
from torchsmith.recipe.read.open import without_definitions

RecipeStyle = Literal["pinned", "flox", "scratch"]
How = Literal["name", "workspace", "header", "comment", "told", "text", "unknown"]
BESIDE = re.compile(r"import \./([\w.+-]+\.nix)\b")
SCRATCH = ("buildPythonPackage", "mkDerivation")
COMMENT = re.compile(r"#.*torchsmith: line ([\w.]+)")  # how a person states the line of a recipe
LIBRARIES = ("magma", "opencv", "triton", "ffmpeg_6-full", "frei0r")


@dataclass(frozen=True, slots=True)
class Release:
    """The line that a recipe is of, and what says so; an empty name where nothing does."""

    line: str = ""
    how: How = "unknown"


def stated_release(
    variant: Variant | None, catalog: Catalog, text: str, asked: str | None, told: str | None = None
) -> Release | None:
    """The release that is stated outright; None where only the code can tell."""
    header, comment = read_header(text), COMMENT.search(text)
    stated: tuple[tuple[How, str | None], ...] = (
        ("name", variant.release.line if variant and variant.release else None),
        ("workspace", asked),
        ("header", header.facts.get("line") if header else None),
        ("comment", comment[1] if comment else None),
        ("told", told),
    )
    for how, line in stated:
        if line and line in catalog.lines:
            return Release(line, how)
    if variant is None or variant.release:
        return Release()
    if not (variant.package.is_torch or variant.package.needs_torch):
        decision = assess(variant, catalog)  # no torch tells it: the line that would build it
        return Release(decision.line.name, "name") if isinstance(decision, Accepted) else Release()
    if variant.flavor:
        nightly = newest_line(catalog, variant.cuda, "nightly")
        return Release(nightly.name, "name") if nightly else Release()
    return None


@dataclass(frozen=True, eq=False)
class ReadRecipe:
    """A recipe with what its name means and its code says. `asked` is the line by which a workspace wants it,
    `told` the line that a person names for all recipes."""

    file: str  # as findings name it
    recipe: Recipe
    catalog: Catalog
    asked: str | None = None
    told: str | None = None

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

    # ---- what the text says

    @cached_property
    def stack(self) -> tuple[Variant, ...]:
        """The recipe's own variant, and those of its cell that it needs, torch among them."""
        own = self.variant
        return tuple(map(own.of, self.catalog.below(own.package))) if own else ()

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
        return "flox"

    @cached_property
    def overrides(self) -> tuple[tuple[str, Override], ...]:
        """Overrides with the package that they are of: torch, magma, ..."""
        bases = _bases(tuple(self.catalog.packages.values()))
        named = ((bases.search(one.of), one) for one in self.body.overrides)
        return tuple((found[1] if found else "", one) for found, one in named)

    def overrides_of(self, *packages: str) -> Iterator[Override]:
        return (one for package, one in self.overrides if package in packages)

    @cached_property
    def _told_torch(self) -> list[str]:
        """The expressions that a torch is told by."""
        told = [one.arguments["torch"] for one in self.body.overrides if "torch" in one.arguments]
        told += [self.body.scoped["torch"]] if "torch" in self.body.scoped else []
        texts = (self.body.syntax.data[one.span.start : one.span.end].decode() for one in told)
        return [text.lstrip("( \n") for text in texts]

    @cached_property
    def torch_from_elsewhere(self) -> bool:
        """Whether the companion is told a torch of another recipe, which is judged for itself."""
        if self.companion and not self.builds_torch:
            return True
        return self.companion and any(text.startswith("import") for text in self._told_torch)

    @property
    def _torch_beside(self) -> ReadRecipe | None:
        """The recipe of torch in the same folder that the companion takes its torch from."""
        found = next(filter(None, map(BESIDE.match, self._told_torch)), None)
        path = self.body.path.parent / found[1] if found else None
        variant = Variant.try_parse(package_name(path), self.catalog) if path else None
        if path is None or variant is None or not variant.package.is_torch or not path.is_file():
            return None
        try:
            return ReadRecipe(path.name, read_recipe(path), self.catalog, told=self.told)
        except Problem:
            return None

    @property
    def builds_torch(self) -> bool:
        """Whether torch is put together here, and not taken as it comes."""
        return not self.companion or any(True for _ in self.overrides_of("torch", "pytorch"))

    @cached_property
    def said_pin(self) -> Pin | None:
        """The nixpkgs that it does import, where the catalog knows it."""
        revs = {pin.rev.value for pin in self.body.pins if pin.rev}
        return next((pin for pin in self.catalog.pins.values() if pin.rev in revs), None)

    # ---- its release

    @cached_property
    def release(self) -> Release:
        """The release that anything states, else what its code says."""
        found = stated_release(self.variant, self.catalog, self.recipe.text, self.asked, self.told)
        return found or self.release_by_code

    @property
    def release_by_code(self) -> Release:
        """Told by a version, a name, a pin, or that its packages are those of Flox's catalog."""
        found = self._named_in_code or self._brought
        return Release(found[0].name, "text") if len(found) == 1 else Release()

    @property
    def _named_in_code(self) -> list[Line]:
        package = self.variant.package.name if self.variant else ""
        lines = [one for one in self.catalog.lines.values() if one.torch and not one.flavor]
        words = [(one, (one.torch, one.version_of(package), f"{one.prefix}-")) for one in lines]
        code = self.code
        return [
            one
            for one, (torch, own, prefix) in words
            if f'"{torch}"' in code or f'"{own}"' in code or f'"{prefix}' in code
        ]

    @property
    def _brought(self) -> list[Line]:
        """The lines that its packages are of, as they come."""
        if self.variant is None:
            return []
        lines = [one for one in self.catalog.lines.values() if not one.flavor]
        if self.style == "flox":
            builds = [(one, one.build_for(self.variant.cuda)) for one in lines if self.body.arguments]
            return [one for one, build in builds if build and build.style == "flox"]
        if self.torch_from_elsewhere:
            torch = self._torch_beside
            return [one for one in lines if torch and torch.release.line == one.name]
        replaced = any(
            one.kind != "override" and not one.arguments.keys().isdisjoint(("src", "version"))
            for one in self.overrides_of("torch", "pytorch")
        )
        pin = None if replaced else self.said_pin
        return [one for one in lines if pin and one.torch == pin.torch]


@lru_cache(maxsize=8)
def _bases(packages: tuple[Package, ...]) -> re.Pattern[str]:
    """What an override is of: a package of the catalog by its name or attribute, or a library below."""
    names = {name for one in packages for name in (one.name, one.attr.rpartition(".")[2])} | {*LIBRARIES}
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({words})(?![\w-])")
