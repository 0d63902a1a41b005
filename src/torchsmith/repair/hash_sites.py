"""Where a hash is stated: a place in a recipe of a person, or what a generated recipe was made from."""

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
from torchsmith.nix.hashes import is_placeholder, respell, to_sri
from torchsmith.recipe.read import Recipe, Span, read_recipe
from torchsmith.recipe.read.located import Unknown
from torchsmith.recipe.read.open import read_text_as_recipe
from torchsmith.recipe.read.syntax import Unreadable
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import FILE, Workspace
from torchsmith.workspace.settings import SourceSettings, ToolkitSettings

HASH_FIELDS = ("hash", "sha256", "sha512", "outputHash")
FAKE = tuple(
    f"{where}{name}"
    for where in ("", "lib.", "pkgs.lib.")
    for name in ("fakeHash", "fakeSha256", "fakeSha512")
)


@dataclass(frozen=True, slots=True)
class HashSite:
    """A stated hash: the file to change, where in it, and words by which its source is recognised."""

    file: Path
    value: str
    marks: tuple[str, ...]
    span: Span | None = None  # in a recipe
    path: tuple[str, ...] = ()  # in a TOML file
    quoted: bool = True  # whether the quotes around the span stay

    @property
    def sri(self) -> str:
        return to_sri(self.value)

    def states(self, sri: str) -> bool:
        """Whether this is what Nix read a hash from: nothing at all is the zero of any algorithm."""
        return self.sri == sri or (not self.value and is_placeholder(sri))

    @property
    def where(self) -> Where:
        if self.span is not None:
            return Where(str(self.file), self.span.line, self.span.column)
        return Where(f"{self.file} ({'.'.join(self.path)})")

    def changed(self, text: str, sri: str) -> str:
        """The file's text with another hash, spelled as the old one was."""
        if self.span is None:
            return set_string(text, self.path, sri)
        data = text.encode()
        written = respell(sri, self.value) if self.quoted else f'"{sri}"'
        return (data[: self.span.start] + written.encode() + data[self.span.end :]).decode()


def holders_of(recipe: RecipeFile, workspace: Workspace, cell: Cell | None) -> list[HashSite]:
    """The hashes that a recipe states, in the files where they are to be changed."""
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
            said.value
            for name, said in source.fields.items()
            if isinstance(said.value, str) and name not in HASH_FIELDS
        )
        for name in HASH_FIELDS:
            said = source.fields.get(name)
            if said is None:
                continue
            if isinstance(said.value, str):
                yield HashSite(recipe.path, said.value, marks, said.span)
            elif isinstance(said.value, Unknown) and said.value.text in FAKE:
                yield HashSite(recipe.path, "", marks, said.span, quoted=False)
    for pin in recipe.pins:
        if pin.sha256 is not None:
            yield HashSite(recipe.path, pin.sha256.value, (pin.url.value,), pin.sha256.span)


def _origins(cell: Cell, workspace: Workspace) -> Iterator[HashSite]:
    """What a generated recipe's hashes come from: the catalog's values, or torchsmith.toml's."""
    catalog, variant = workspace.catalog, cell.variant
    line = catalog.lines[cell.line]
    folder = workspace.home / "catalog"
    # A release of its own whose hash nobody stated is a source too.
    below = catalog.below(variant.package)
    stated = {one.name: "" for one in below if one.upstream and line.version_of(one.name)}
    for package, value in {**stated, **line.hashes}.items():
        known = catalog.packages.get(package)
        upstream = known.upstream if known else None
        tag = upstream.tag_of(line.version_of(package)) if upstream else ""
        marks = (f"{upstream.owner}/{upstream.repo}", tag) if upstream else ()
        yield HashSite(folder / "lines.toml", value, marks, path=(line.name, "hashes", package))
    build = line.build_for(variant.toolkit)
    for fix in build.fixes if build else ():
        for name, patch in catalog.fixes[fix].patches.items():
            words = tuple(filter(None, (patch.url, patch.rev, patch.name)))
            yield HashSite(folder / "fixes.toml", patch.hash, words, path=(fix, "patches", name, "hash"))
    if build and build.pin in catalog.pins and catalog.pins[build.pin].sha256:
        pin = catalog.pins[build.pin]
        yield HashSite(folder / "pins.toml", pin.sha256, (pin.rev,), path=(pin.name, "sha256"))
    for one in below:
        yield from _in_template(catalog.template_of(one.name), catalog)
    yield from _settings(workspace)


def _in_template(path: str, catalog: Catalog) -> Iterator[HashSite]:
    """Hashes that a template of the workspace's own states by itself, where it can be read as Nix."""
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


def best(holders: Sequence[HashSite], specified: str, told: str) -> list[HashSite]:
    """The holders of a mismatched hash: their value is what Nix read, and their marks are in what is told.

    Those come first whose every mark is there: placeholders all state the same hash. Several where one source
    is stated in several places; none where the places are of different sources.
    """
    same = [holder for holder in holders if holder.states(specified)]
    scored = [(_recognised(holder.marks, told), holder) for holder in same]
    most = max((score for score, _ in scored), default=None)
    first = [holder for score, holder in scored if score == most]
    return first if len({frozenset(holder.marks) for holder in first}) == 1 else []


def _recognised(marks: Sequence[str], told: str) -> tuple[bool, int]:
    """Whether all marks are told, and how many: as words, for a short one is part of many a store path."""
    words = [mark for mark in marks if mark]
    found = sum(
        re.search(rf"(?<![0-9A-Za-z]){re.escape(mark)}(?![0-9A-Za-z])", told) is not None for mark in words
    )
    return 0 < found == len(words), found


def source_of(derivation: Derivation) -> str:
    """What a download is a download of: its address and revision."""
    env = derivation.env
    address = env.get("url") or env.get("urls") or derivation.name
    return " ".join(filter(None, (address.strip(), env.get("rev", ""), env.get("outputHashMode", ""))))


def searchable_text(derivation: Derivation) -> str:
    """All words of a download by which a holder's marks may recognise it."""
    return "\n".join((derivation.name, *derivation.env.values()))
