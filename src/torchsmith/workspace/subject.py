"""One recipe with what its text says, what its name means, which release it is of, and what the catalog
expects of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from torchsmith.catalog import Catalog, CudaToolkit, Gpu, Isa, Line, LineBuild, Package, Pin, builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.matrix import Flavor, ParsedName, Variant, try_read
from torchsmith.matrix.variant import package_name
from torchsmith.recipe.header import Header, Owner, owner_of, read_header
from torchsmith.recipe.read import (
    Bound,
    Located,
    Override,
    Recipe,
    Span,
    Value,
    read_recipe,
)
from torchsmith.recipe.read.open import without_definitions
from torchsmith.workspace.lock import LockedNixpkgs, locked_nixpkgs
from torchsmith.workspace.release import stated_release

PKGS = ".flox/pkgs"
RecipeStyle = Literal["pinned", "flox", "scratch"]
BESIDE = re.compile(r"(?:import|(?:\w+\.)*callPackage) \./([\w.+-]+\.nix)\b")
SCRATCH = ("buildPythonPackage", "mkDerivation")
TORCH_IS_TORCH = 1664582400  # 2022-10-01: nixpkgs had renamed `pytorch` to `torch`
LIBRARIES = ("magma", "opencv", "triton", "ffmpeg_6-full", "frei0r")
# What rules ask for by its type, and what a subject calls it.
FACTS: Mapping[type, str] = {
    Variant: "variant",
    ParsedName: "reading",
    Line: "line",
    LineBuild: "build",
    Gpu: "gpu",
    Isa: "isa",
    CudaToolkit: "toolkit",
}


@dataclass(frozen=True, eq=False)
class Subject:
    """A recipe with everything that is known about it. `requested_line` is the line of torchsmith.toml,
    `chosen_line` the one that --line names for all recipes."""

    file: str  # as findings name it
    recipe: Recipe
    catalog: Catalog
    requested_line: str | None = None
    chosen_line: str | None = None
    strict: bool = False  # our conventions bind it, whoever wrote it

    # ---- what the name says

    @property
    def name(self) -> str:
        return self.recipe.name

    @cached_property
    def reading(self) -> ParsedName | None:
        """What the name means, if it is a package's."""
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
        own = [member.package for member in self.stack if self.catalog.template_of(member.package.name)]
        return without_definitions(self.whole, [package.attr for package in own]) if own else self.whole

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
        bases = _bases(self.catalog)
        named = ((bases.search(override.of), override) for override in self.body.overrides)
        return tuple((base[1] if base else "", override) for base, override in named)

    def overrides_of(self, *packages: str) -> Iterator[Override]:
        return (override for package, override in self.overrides if package in packages)

    def version_given(self, *packages: str) -> str:
        """The version that overrides state for a package; empty if none does."""
        given = (override.arguments.get("version") for override in self.overrides_of(*packages))
        versions = [version.value for version in given if version is not None]
        return versions[-1] if versions and isinstance(versions[-1], str) else ""

    @cached_property
    def _torch_expressions(self) -> list[str]:
        """The expressions that are passed as torch."""
        passed = [
            override.arguments["torch"] for override in self.body.overrides if "torch" in override.arguments
        ]
        passed += [self.body.scoped["torch"]] if "torch" in self.body.scoped else []
        texts = (self.body.text_at(value.span) for value in passed)
        return [text.lstrip("( \n") for text in texts]

    @cached_property
    def torch_from_elsewhere(self) -> bool:
        """Whether the companion gets a torch of another recipe, which is judged for itself."""
        if self.companion and not self.builds_torch:
            return True
        return self.companion and any(text.startswith("import") for text in self._torch_expressions)

    @cached_property
    def torch_beside(self) -> tuple[Path, Variant] | None:
        """The recipe of torch in the same folder that the companion takes its torch from, by its name."""
        match = next(filter(None, map(BESIDE.match, self._torch_expressions)), None)
        path = self.body.path.parent / match[1] if match else None
        variant = Variant.try_parse(package_name(path), self.catalog) if path else None
        return (path, variant) if path and variant and variant.package.is_torch else None

    @property
    def _release_beside(self) -> str:
        path = self.torch_beside[0] if self.torch_beside else None
        try:
            torch = read_recipe(path) if path and path.is_file() else None
        except Problem:
            return ""
        return (
            Subject(torch.path.name, torch, self.catalog, chosen_line=self.chosen_line).release
            if torch
            else ""
        )

    @property
    def builds_torch(self) -> bool:
        """Whether torch is put together here, and not taken as it comes."""
        return not self.companion or any(True for _ in self.overrides_of("torch", "pytorch"))

    @cached_property
    def imported_pin(self) -> Pin | None:
        """The nixpkgs that it does import, if the catalog knows it; without a name, also by a lock
        file."""
        revs = {pin.rev.value for pin in self.body.pins if pin.rev}
        if not self.body.pins and self.variant is None:
            revs = {locked.rev for locked in self._locked}
        known = {pin.rev: pin for pin in self.catalog.pins.values()}
        return known.get(revs.pop()) if len(revs) == 1 else None

    @property
    def _locked(self) -> tuple[LockedNixpkgs, ...]:
        return locked_nixpkgs(self.recipe.path) if self.recipe.path.is_file() else ()

    @property
    def pin_has_torch(self) -> bool:
        """Whether its nixpkgs is known, and new enough to call the package `torch`."""
        if self.variant is not None or self.imported_pin is not None:
            return True
        locked = () if self.body.pins else self._locked
        return bool(locked) and all(nixpkgs.modified >= TORCH_IS_TORCH for nixpkgs in locked)

    @property
    def defines(self) -> frozenset[str]:
        """Which of nixpkgs' names of torch it defines, other than by an override."""
        plain = (text for text in self.body.bound_texts("torch") if ".override" not in text)
        names = {"pytorch": bool(self.bound("pytorch")), "torch": any(plain)}
        return frozenset(name for name, defined in names.items() if defined)

    # ---- its release

    @cached_property
    def release(self) -> str:
        """The line that anything states, else what its code says; empty if nothing does."""
        lines = self.requested_line, self.chosen_line
        stated = stated_release(self.variant, self.catalog, self.recipe.text, *lines)
        return self.release_by_code if stated is None else stated

    @property
    def release_by_code(self) -> str:
        """Known by a version, a name, a pin, or that its packages are those of Flox's catalog."""
        lines = self._named_in_code or self._packaged_lines
        return lines[0].name if len(lines) == 1 else ""

    @property
    def _named_in_code(self) -> list[Line]:
        """The lines whose torch it builds from a source of its own, else those whose versions it names."""
        package = self.variant.package.name if self.variant else ""
        lines = [line for line in self.catalog.lines.values() if line.torch and not line.flavor]
        given = self.version_given("torch", "pytorch")
        if built := [line for line in lines if line.torch == given]:
            return built
        marks = [(line, (line.torch, line.version_of(package), f"{line.prefix}-")) for line in lines]
        code = self.code
        return [
            line
            for line, (torch, own, prefix) in marks
            if f'"{torch}"' in code or f'"{own}"' in code or f'"{prefix}' in code
        ]

    @property
    def _packaged_lines(self) -> list[Line]:
        """The lines that its packages are of, as they come."""
        if self.variant is None:
            return []
        lines = [line for line in self.catalog.lines.values() if not line.flavor]
        if self.style == "flox":
            builds = [(line, line.build_for(self.variant.toolkit)) for line in lines if self.body.arguments]
            return [line for line, build in builds if build and build.style == "flox"]
        if self.torch_from_elsewhere:
            return [line for line in lines if line.name == self._release_beside]
        replaced = any(
            override.kind != "override" and not override.arguments.keys().isdisjoint(("src", "version"))
            for override in self.overrides_of("torch", "pytorch")
        )
        pin = None if replaced else self.imported_pin
        return [line for line in lines if pin and line.torch == pin.torch]

    # ---- what rules ask

    def fact(self, kind: type) -> object:
        """What is known of a kind, such as its Gpu; None if nothing is."""
        return getattr(self, FACTS[kind])

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
    def not_companion(self) -> bool:
        """It is not a companion of a torch."""
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

    def span(self, match: re.Match[str], group: int = 0) -> Span:
        """The place of something found in `code`."""
        start, end = match.span(group)
        if not self.code.isascii():
            start, end = len(self.code[:start].encode()), len(self.code[:end].encode())
        return self.body.syntax.span_at(start, end)

    def label_of(self, recipe: Recipe) -> str:
        """How findings name a file that this one leads to."""
        if recipe is self.recipe:
            return self.file
        away = os.path.relpath(recipe.path, self.recipe.path.parent)
        return os.path.normpath(os.path.join(os.path.dirname(self.file), away))

    def passed_to(self, *packages: str) -> list[Override]:
        """The overrides that set arguments of packages."""
        return [override for override in self.overrides_of(*packages) if override.kind == "override"]

    def bound(self, name: str) -> tuple[Bound, ...]:
        return self.body.bound(name)

    @property
    def bundled(self) -> frozenset[Package]:
        """What the package needs besides torch, which its recipe brings too."""
        return frozenset(member.package for member in self.stack[:-1] if not member.package.is_torch)

    @property
    def embeds_torch(self) -> bool:
        """Whether it builds torch and a companion, each with its name, flags and meta."""
        return self.companion and self.style != "flox" and not self.torch_from_elsewhere

    @property
    def imports_readable(self) -> bool:
        """Whether the arguments of every import of nixpkgs could be read: what an overlay of another file
        does is not known."""
        return all(imported.complete for imported in self.body.imports)

    @property
    def enforce_conventions(self) -> bool:
        """Whether our own conventions bind it: only what torchsmith wrote, unless `strict`."""
        return self.strict or self.header is not None

    # ---- what the catalog expects

    @cached_property
    def line(self) -> Line | None:
        """The line of its release, if that is known and has its CUDA release."""
        line = self.catalog.lines.get(self.release)
        return line if line and self.variant and line.build_for(self.variant.toolkit) else None

    @cached_property
    def build(self) -> LineBuild | None:
        """How the line is built; None also if its nixpkgs is not known yet."""
        build = self.line.build_for(self.variant.toolkit) if self.line and self.variant else None
        return build if build and not build.lacks_pin else None

    @property
    def pin(self) -> Pin | None:
        """The nixpkgs that the recipe should import."""
        return self.catalog.pins.get(self.build.pin) if self.build else None

    @property
    def config(self) -> Mapping[str, Located[Value]]:
        """What the import of nixpkgs is configured with."""
        return {name: setting for imported in self.body.imports for name, setting in imported.config.items()}

    @property
    def configured(self) -> bool:
        """Whether the package set itself gets the architectures, and all of it is built for them."""
        capabilities = self.config.get("cudaCapabilities")
        dropped = self.known_pin is not None and self.gpu is not None and self.gpu.torch_drops
        return capabilities is not None and capabilities.value != [] and not dropped

    @property
    def known_pin(self) -> Pin | None:
        """The nixpkgs that it is built from, if that is certain: the one it imports, or the one that the
        catalog's own recipes of its line take. What the package set of another caller holds is not known."""
        if self.body.pins:
            return self.imported_pin
        ours = self.enforce_conventions or (self.build is not None and self.build.style == "flox")
        return self.pin if ours else None

    @property
    def at_its_pin(self) -> bool:
        """Whether what is known of the line's build holds: it was found at one pin, and holds at that one. A
        workspace that moves a line to another pin does not know more of recipes that others wrote."""
        ours = self.enforce_conventions or not self._moved
        return ours and self.pin is not None and self.known_pin is self.pin

    @property
    def _moved(self) -> bool:
        """Whether a workspace gives the line another pin than the catalog, with the same fixes."""
        shipped = builtin_catalog().lines.get(self.line.name) if self.line else None
        known = shipped.build_for(self.variant.toolkit) if shipped and self.variant else None
        own = self.build
        return bool(known and own and own.pin != known.pin and own.fixes == known.fixes)

    @property
    def isa(self) -> Isa | None:
        return self.catalog.isas.get(self.variant.isa) if self.variant else None

    @property
    def gpu(self) -> Gpu | None:
        return self.catalog.gpus.get(self.variant.sm) if self.variant and self.variant.sm else None

    @property
    def gpu_unknown(self) -> bool:
        """Whether its name has an SM that the catalog does not know."""
        sm = self.variant.sm if self.variant else None
        return sm is not None and sm not in {**self.catalog.gpus, **self.catalog.retired}

    @property
    def toolkit(self) -> CudaToolkit | None:
        return self.catalog.cuda.get(self.variant.cuda) if self.variant and self.variant.cuda else None

    @property
    def generated(self) -> bool:
        """Whether its own header vouches for the recipe."""
        return self.owner == "ours"


@lru_cache(maxsize=8)
def _bases(catalog: Catalog) -> re.Pattern[str]:
    """What an override is of: a package of the catalog by its name or attribute, or a library below."""
    packages = catalog.packages.values()
    names = {name for package in packages for name in (package.name, package.attr.rpartition(".")[2])}
    names.update(LIBRARIES)
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({alternatives})(?![\w-])")
