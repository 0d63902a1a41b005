"""From torchsmith.toml to a matrix: found, decoded, checked value by value, each fault with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Package, builtin_catalog, load_catalog
from torchsmith.core.files import read_text
from torchsmith.core.problem import (
    Conflict,
    Empty,
    Incomplete,
    Invalid,
    NotFound,
    NotKnown,
    Problem,
    ValuePath,
    did_you_mean,
)
from torchsmith.core.state import TOML
from torchsmith.core.text import shell_word
from torchsmith.core.toml import place, read_cached, read_table, validation_problem
from torchsmith.matrix import (
    Accelerator,
    Block,
    Cell,
    Matrix,
    MatrixSpec,
    Selector,
    Variant,
    expand,
    read_name,
)
from torchsmith.matrix.cells import Accepted, Decision, assess, newest_pin
from torchsmith.matrix.expand import Include
from torchsmith.matrix.variant import read_target
from torchsmith.workspace.proved import proved, settled
from torchsmith.workspace.settings import MatrixBlock, Profile, Settings, decode

FILE = TOML
T = TypeVar("T")
DEFAULT = Path(__file__).with_name("default.toml")


class Workspace(msgspec.Struct, frozen=True, dict=True):
    """What is wanted, and where. `root` is None for the embedded default."""

    root: Path | None
    source: SettingsFile
    settings: Settings
    catalog: Catalog
    profile: str

    @property
    def home(self) -> Path:
        """The folder it is in; a Problem for the embedded default, which is nowhere."""
        if self.root is None:
            hint = "torchsmith init writes one, then try again"
            raise NotFound("there is no torchsmith.toml here or above", hint=hint)
        return self.root

    @cached_property
    def matrix(self) -> Matrix:
        matrix = self.source.placed(lambda: expand(self.spec, self.catalog))
        known = proved(self.root)
        if not known:
            return matrix
        return replace(matrix, cells=tuple(settled(cell, self.catalog, known) for cell in matrix.cells))

    @property
    def lines(self) -> dict[str, str]:
        """The line of every wanted cell; none if the file only says how to audit."""
        stated = self.profile or self.settings.matrix or self.settings.include
        return {cell.name: cell.line for cell in self.matrix.cells} if stated else {}

    @cached_property
    def spec(self) -> MatrixSpec:
        return _Resolver(self.source, self.settings, self.catalog).spec(self.profile)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Tarballs besides nixpkgs that its recipes may download while they are evaluated."""
        toolkit = self.settings.nightly.cudatoolkit if self.settings.nightly else None
        return (*self.settings.fetch, *((toolkit.address,) if toolkit else ()))

    def with_texts(self, texts: Mapping[str, str]) -> Workspace:
        """The workspace as it would be with other texts of its files, by path below it."""
        source = replace(self.source, text=texts.get(FILE, self.source.text))
        facts = {Path(path).stem: text for path, text in texts.items() if path.startswith("catalog/")}
        catalog = load_catalog(self.home / "catalog", facts) if facts else self.catalog
        return replace(self, source=source, settings=parse_settings(source), catalog=catalog)

    def cells_of(self, package: Package) -> tuple[Cell, ...]:
        """The cells of one package, without expanding the others; the file is taken to be right."""
        return self.source.placed(lambda: expand(self.spec.of(package), self.catalog)).cells

    def has(self, variant: Variant) -> bool:
        """Whether the matrix has a cell by this name, found out without expanding it."""
        return self.spec.has(variant, self.catalog)

    def find(self, variant: Variant) -> Cell | None:
        """The matrix's cell, under its name or, if the name states a release, under the plain one."""
        cell = self.matrix.find(variant.name)
        if cell is None and variant.release:
            plain = self.matrix.find(variant.changed(release=None).name)
            cell = plain if plain and plain.line == variant.release.line else None
        return cell

    def line_of(self, variant: Variant) -> str | None:
        """The line that this workspace builds a cell with, if it has one for it."""
        cell = self.find(variant)
        return cell.line if cell else self.settings.line

    def decide(self, variant: Variant) -> Decision:
        """The decision on a cell; of the matrix's own without the warnings that an evaluation answered."""
        if cell := self.find(variant):
            return Accepted(self.catalog.lines[cell.line], cell.warnings)
        return assess(variant, self.catalog, self.settings.line)

    def in_matrix(self, variant: Variant) -> str:
        """A sentence on whether the matrix has a cell."""
        matrix = self.source.name if self.root else f"profile {self.profile}"
        if cell := self.find(variant):
            return f"it is in {matrix}" + (f" as {cell.name}" if cell.name != variant.name else "")
        for left in self.matrix.left_out:
            if left.variant == variant:
                return f"{matrix} leaves it out: {'; '.join(map(str, left.reasons))}"
        return f"{matrix} does not have it"

    def adds(self, variant: Variant) -> str:
        """The file to which a cell can be added; none if the workspace's line does not build it."""
        accepted = isinstance(assess(variant, self.catalog, self.settings.line), Accepted)
        return self.source.name if self.root and accepted else ""

    def select(self, selectors: Sequence[str]) -> Matrix:
        """The part of the matrix that selectors pick."""
        return self.matrix.select(selectors, self.catalog) if selectors else self.matrix


class SettingsFile(msgspec.Struct, frozen=True):
    """The text of a torchsmith.toml and what to call it."""

    name: str
    text: str
    shipped: bool = False  # it is torchsmith's own

    def placed(self, work: Callable[[], T]) -> T:
        """Do `work`; a Problem about a value gets the line and column of that value."""
        try:
            return work()
        except Problem as problem:
            if not problem.path or problem.where is not None:
                raise
            raise problem.replace(where=place(self.text, self.name, problem.path)) from None


def open_workspace(
    path: Path | str | None, profile: str | None = None, *, default_profile: str = "", recover: bool = False
) -> Workspace:
    """The workspace at `path`, else the nearest above the current folder, else the embedded default.

    `default_profile` is for the embedded default, if no profile is named. With `recover`, which
    only verbs that write may pass, files that a stopped run left half written are finished first.
    """
    file = _find(None if path is None else Path(path))
    if file == DEFAULT:
        profile = profile or default_profile
    try:
        return _load(file, profile)
    except Problem as problem:
        from torchsmith.workspace.journal import finish_stopped, stopped_halfway

        # Of files that belong together a stopped run may have put the first in place, and not the rest.
        if file == DEFAULT or not stopped_halfway(file.parent):
            raise
        if not recover:
            hint = "a stopped run left its files half written: torchsmith apply finishes it"
            raise problem.replace(hint=hint) from problem
        finish_stopped(file.parent, "reading")
        return _load(file, profile)


def _load(file: Path, profile: str | None, text: str | None = None) -> Workspace:
    name = str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
    source = SettingsFile(name, read_text(file) if text is None else text, shipped=file == DEFAULT)
    settings = parse_settings(source)
    root = None if file == DEFAULT else file.parent
    catalog = load_catalog(root / "catalog") if root else builtin_catalog()
    return Workspace(root, source, settings, catalog, profile or settings.profile)


def bare_workspace(folder: Path, text: str = "format = 1\n") -> Workspace:
    """A folder without torchsmith.toml, as a workspace with this one, which asks for nothing."""
    return _load(folder.absolute() / FILE, "", text)


def read_as(file: Path, text: str) -> Matrix:
    """The matrix that a text would be as a torchsmith.toml at this place."""
    return _load(file.absolute(), None, text).matrix


def _find(path: Path | None) -> Path:
    if path is not None:
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            folder = file.parent if file.suffix == ".toml" else file
            hint = f"torchsmith init {shell_word(str(folder))} writes one"
            raise NotFound(f"no such file: {file}", hint=hint)
        return file.absolute()
    files = (folder / FILE for folder in (Path.cwd(), *Path.cwd().parents))
    return next((file for file in files if file.is_file()), DEFAULT)


def parse_settings(source: SettingsFile) -> Settings:
    """The decoded file, or a Problem with line and column."""
    table = read_cached(DEFAULT) if source.shipped else read_table(source.text, source.name)
    try:
        return msgspec.convert(table, Settings, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise validation_problem(table, Settings, source.text, source.name, decode=decode) from error


class _Resolver(msgspec.Struct, frozen=True):
    """Turns decoded settings into a MatrixSpec, checking each value against the catalog."""

    source: SettingsFile
    settings: Settings
    catalog: Catalog

    def spec(self, profile: str) -> MatrixSpec:
        """What the file and a profile ask for. Raises a Problem with the path of the value at fault."""
        settings = self.settings
        if settings.line is not None and settings.line not in self.catalog.lines:
            hint = did_you_mean(settings.line, self.catalog.lines)
            raise NotKnown(f"unknown line {settings.line!r}", hint=hint, path=("line",))
        spec = self._spec(settings, ())
        if profile:
            at = ("profile",) if profile == settings.profile else ()  # else an option names it
            spec = _joined(self._profile(profile, at, ()), spec)
        for index, cuda in enumerate(settings.cudatoolkit):
            if newest_pin(self.catalog, cuda) is None:
                raise Conflict(f"no pin here has CUDA {cuda}", path=("cudatoolkit", index))
        if not spec.blocks and not spec.include:
            hint = 'name a profile (profile = "real") or give [[matrix]] blocks'
            raise Empty(f"{self.source.name} asks for nothing", hint=hint)
        return _usable(spec) if settings.usable else spec

    def _profile(self, name: str, at: ValuePath, seen: tuple[str, ...]) -> MatrixSpec:
        profile, path = self._find_profile(name, at)
        if name in seen:
            chain = " -> ".join((*seen, name))
            raise Conflict(f"profiles extend each other in a circle: {chain}", path=at)
        own = self._spec(profile, path)
        below = (profile.extends,) if isinstance(profile.extends, str) else profile.extends
        for other in reversed(below):
            own = _joined(self._profile(other, (*path, "extends"), (*seen, name)), own)
        return _usable(own) if profile.usable else own

    def _find_profile(self, name: str, at: ValuePath) -> tuple[Profile, ValuePath]:
        if name in self.settings.profiles:
            return self.settings.profiles[name], ("profiles", name)
        known = default_profiles()
        if name in known:
            return known[name], at
        choices = dict.fromkeys((*self.settings.profiles, *known))
        blamed = () if self.source.shipped else at  # no file of the user's is at fault
        raise NotKnown(f"unknown profile {name!r}", hint=did_you_mean(name, choices), path=blamed)

    def _spec(self, of: Settings | Profile, at: ValuePath) -> MatrixSpec:
        return MatrixSpec(
            tuple(self._block(block, (*at, "matrix", index)) for index, block in enumerate(of.matrix)),
            tuple(self._include(name, (*at, "include", index)) for index, name in enumerate(of.include)),
            tuple(
                self._exclude(selector, (*at, "exclude", index)) for index, selector in enumerate(of.exclude)
            ),
        )

    def _block(self, block: MatrixBlock, at: ValuePath) -> Block:
        for problem in self._block_faults(block, at):
            raise problem
        line = block.line or self.settings.line
        return Block(
            packages=self._packages(block.packages, (*at, "packages")),
            pythons=tuple(dict.fromkeys(block.python)),
            cudas=tuple(dict.fromkeys(choice.version for choice in block.cuda)),
            sms=tuple(dict.fromkeys(block.sm)),
            isas=tuple(dict.fromkeys(block.isa)),
            accelerators=tuple(self._accelerator(word, (*at, "target")) for word in block.target),
            line=line,
            release=self.catalog.lines[line].release if block.prefix and line else None,
            path=at,
        )

    def _accelerator(self, word: str, at: ValuePath) -> Accelerator:
        try:
            target = read_target(word, self.catalog)
        except Problem as problem:
            raise problem.replace(path=at) from None
        if not isinstance(target, Accelerator):
            raise Invalid(f"{word} is not a target of another backend", hint="cuda and sm say it", path=at)
        return target

    def _packages(self, names: tuple[str, ...] | None, at: ValuePath) -> tuple[Package, ...]:
        """Packages by name: those of a block, else of the workspace, else those that every workspace has."""
        known = self.catalog.packages
        if names is None:
            names, at = self.settings.packages, ("packages",)
        if names is None:
            return tuple(package for package in known.values() if package.default)
        for index, name in enumerate(names):
            if name not in known:
                raise NotKnown(f"unknown package {name!r}", hint=did_you_mean(name, known), path=(*at, index))
        return tuple(known[name] for name in names)

    def _block_faults(self, block: MatrixBlock, at: ValuePath) -> Iterator[Problem]:
        catalog = self.catalog
        cudas = [choice.version for choice in block.cuda]
        if block.line is not None and block.line not in catalog.lines:
            hint = did_you_mean(block.line, catalog.lines)
            yield NotKnown(f"unknown line {block.line!r}", hint=hint, path=(*at, "line"))
        if block.prefix and not (block.line or self.settings.line):
            yield Incomplete("prefix needs a line, whose release the names state", path=(*at, "prefix"))
        checks = (
            ("python", block.python, catalog.pythons, "Python"),
            ("cuda", cudas, (None, *catalog.cuda), "CUDA"),
            ("sm", block.sm, catalog.gpus, "GPU architecture"),
            ("isa", block.isa, catalog.isas, "instruction set"),
        )
        for key, values, known, what in checks:
            for index, value in enumerate(values):
                if value not in known:
                    hint = did_you_mean(str(value), [str(name) for name in known if name is not None])
                    yield NotKnown(f"unknown {what} {value}", hint=hint, path=(*at, key, index))
        if any(cuda is not None for cuda in cudas) and not block.sm:
            yield Incomplete("a GPU block needs sm, a list of GPU architectures", path=at)
        targets = len(cudas) + len(block.target)
        implied = not cudas and all(self._accelerator(word, (*at, "target")).isa for word in block.target)
        isas = len(block.isa) + (implied and targets)
        for key, count in (("python", len(block.python)), ("cuda", targets), ("isa", isas)):
            if not count:
                yield Empty(f"{key} is empty: the block has no build", path=(*at, key))

    def _include(self, name: str, at: ValuePath) -> Include:
        try:
            reading = read_name(name, self.catalog)
        except Problem as problem:
            raise problem.replace(path=at) from None
        if reading.old:
            raise Invalid(f"{name!r} is an old spelling", hint=f"write {reading.variant}", path=at)
        return Include(reading.variant, self.settings.line, at)

    def _exclude(self, selector: str, at: ValuePath) -> Selector:
        try:
            return Selector.parse([selector], self.catalog)
        except Problem as problem:
            raise problem.replace(path=at) from None


def _joined(below: MatrixSpec, own: MatrixSpec) -> MatrixSpec:
    return MatrixSpec(below.blocks + own.blocks, below.include + own.include, below.exclude + own.exclude)


def _usable(spec: MatrixSpec) -> MatrixSpec:
    """The same without the cells that no machine can use."""
    return replace(spec, blocks=tuple(replace(block, usable=True) for block in spec.blocks))


def default_profiles() -> dict[str, Profile]:
    """The profiles that every workspace knows."""
    return parse_settings(SettingsFile(DEFAULT.name, "", shipped=True)).profiles
