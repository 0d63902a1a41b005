"""Where a hash is stated: in a hand-written recipe, or in what a generated recipe is made from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.core.problem import Problem, Where
from torchsmith.core.toml_edit import set_string
from torchsmith.matrix import Cell
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.hashes import is_placeholder, parse_hash, to_sri
from torchsmith.recipe.read import Edit, Recipe, Span, edited, read_recipe
from torchsmith.recipe.read.located import Unknown
from torchsmith.recipe.read.open import read_text_as_recipe
from torchsmith.recipe.read.syntax import Unreadable
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import FILE, Workspace
from torchsmith.workspace.settings import SourceSettings, ToolkitSettings

HASH_FIELDS = ("hash", "sha256", "sha512", "outputHash")
FAKE = re.compile(r"(?:pkgs\.)?(?:lib\.)?fake(?:Hash|Sha256|Sha512)")


@dataclass(frozen=True, slots=True)
class HashSite:
    """A stated hash: the file to change, where in it, and texts by which its source is recognised."""

    file: Path
    value: str
    marks: tuple[str, ...]
    span: Span | None = None  # in a recipe
    path: tuple[str, ...] = ()  # in a TOML file
    quoted: bool = True  # whether the quotes around the span stay

    @property
    def sri(self) -> str:
        return to_sri(self.value)

    @property
    def damaged(self) -> bool:
        """Whether this is neither a hash nor a placeholder."""
        return not (is_placeholder(self.value) or parse_hash(self.value) or "$" in self.value)

    def states(self, sri: str) -> bool:
        """Whether this is what Nix read a hash from: nothing at all is the zero of any algorithm."""
        return self.sri == sri or (not self.value and is_placeholder(sri))

    @property
    def where(self) -> Where:
        if self.span is not None:
            return Where(str(self.file), self.span.line, self.span.column)
        return Where(f"{self.file} ({'.'.join(self.path)})")

    def changed(self, text: str, sri: str) -> str:
        """The file's text with another hash."""
        if self.span is None:
            return set_string(text, self.path, sri)
        written = sri if self.quoted else f'"{sri}"'
        return edited(text.encode(), [Edit(self.span.start, self.span.end, written)])


def hash_sites(recipe: RecipeFile, workspace: Workspace, cell: Cell | None) -> list[HashSite]:
    """The hashes that a recipe states, in the files in which they are to be changed."""
    if cell is not None and recipe.owner == "ours":
        return list(_origins(cell, workspace))
    try:
        content = read_recipe(recipe.path).content
    except Problem:
        return []
    return list(_places(content))


def _places(recipe: Recipe) -> Iterator[HashSite]:
    for source in recipe.sources:
        marks = tuple(
            field.value
            for name, field in source.fields.items()
            if isinstance(field.value, str) and name not in HASH_FIELDS
        )
        for name in HASH_FIELDS:
            field = source.fields.get(name)
            if field is None:
                continue
            if isinstance(field.value, str):
                yield HashSite(recipe.path, field.value, marks, field.span)
            elif isinstance(field.value, Unknown) and FAKE.fullmatch(field.value.text):
                yield HashSite(recipe.path, "", marks, field.span, quoted=False)
    for pin in recipe.pins:
        if pin.sha256 is not None:
            yield HashSite(recipe.path, pin.sha256.value, (pin.url.value,), pin.sha256.span)


def _origins(cell: Cell, workspace: Workspace) -> Iterator[HashSite]:
    """What a generated recipe's hashes come from: the catalog's values, or torchsmith.toml's."""
    catalog, variant = workspace.catalog, cell.variant
    line = catalog.lines[cell.line]
    folder = workspace.home / "catalog"
    # A package whose release the line states is a source too, even without a hash.
    below = catalog.below(variant.package)
    stated = {package.name: "" for package in below if package.upstream and line.version_of(package.name)}
    for name, value in {**stated, **line.hashes}.items():
        upstream = catalog.packages[name].upstream if name in catalog.packages else None
        marks: tuple[str, ...] = ()
        if upstream:
            marks = (f"{upstream.owner}/{upstream.repo}", upstream.tag_of(line.version_of(name)))
        yield HashSite(folder / "lines.toml", value, marks, path=(line.name, "hashes", name))
    build = line.build_for(variant.toolkit)
    for fix in build.fixes if build else ():
        for name, patch in catalog.fixes[fix].patches.items():
            marks = tuple(filter(None, (patch.url, patch.rev, patch.name)))
            yield HashSite(folder / "fixes.toml", patch.hash, marks, path=(fix, "patches", name, "hash"))
    if build and build.pin in catalog.pins and catalog.pins[build.pin].sha256:
        pin = catalog.pins[build.pin]
        yield HashSite(folder / "pins.toml", pin.sha256, (pin.rev,), path=(pin.name, "sha256"))
    for package in below:
        yield from _in_template(catalog.template_of(package.name), catalog)
    yield from _settings(workspace)


def _in_template(path: str, catalog: Catalog) -> Iterator[HashSite]:
    """Hashes that a template of the workspace's own states by itself, if it can be read as Nix."""
    if not path:
        return
    try:
        yield from _places(read_text_as_recipe(catalog.templates[path].encode(), Path(path)))
    except Unreadable:
        return


def _settings(workspace: Workspace) -> Iterator[HashSite]:
    nightly = workspace.settings.nightly
    if nightly is None or workspace.root is None:
        return
    file = workspace.root / FILE
    for name, source in msgspec.structs.asdict(nightly).items():
        if isinstance(source, SourceSettings | ToolkitSettings):
            yield HashSite(file, source.hash, (source.rev,), path=("nightly", name, "hash"))


def best(sites: Sequence[HashSite], specified: str, text: str) -> list[HashSite]:
    """The sites of a mismatched hash: their value is what Nix read, and their marks are in the text about the
    download.

    Sites whose every mark is there win: placeholders all state the same hash. Several if one source is
    stated in several places; none if the places are of different sources.
    """
    same = [site for site in sites if site.states(specified)]
    scored = [(_recognised(site.marks, text), site) for site in same]
    highest = max((score for score, _ in scored), default=None)
    first = [site for score, site in scored if score == highest]
    return first if len({frozenset(site.marks) for site in first}) == 1 else []


def _recognised(marks: Sequence[str], text: str) -> tuple[bool, int]:
    """Whether a text has all marks, and how many: as whole words, for a short one is part of many store
    paths."""
    marks = [mark for mark in marks if mark]
    patterns = (rf"(?<![0-9A-Za-z]){re.escape(mark)}(?![0-9A-Za-z])" for mark in marks)
    count = sum(re.search(pattern, text) is not None for pattern in patterns)
    return 0 < count == len(marks), count


def source_of(derivation: Derivation) -> str:
    """What a download is a download of: its address and revision."""
    env = derivation.env
    address = env.get("url") or env.get("urls") or derivation.name
    return " ".join(filter(None, (address.strip(), env.get("rev", ""), env.get("outputHashMode", ""))))


def searchable_text(derivation: Derivation) -> str:
    """The text of a download in which the marks of sites are searched."""
    return "\n".join((derivation.name, *derivation.env.values()))
