"""One buildable cell and its name, both ways: the one we write, and older spellings that we still read."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from torchsmith.catalog import Catalog, CudaVersion, Line, Package, PythonVersion, Sm, StatedRelease
from torchsmith.catalog.axes import BackendVersion
from torchsmith.catalog.facts import GpuBackend
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import Problem, nearest

EXAMPLE = "pytorch-python313-cuda13_0-sm120-avx512"
LONGEST_NAME = 200
CUDA = "cuda"  # the backend whose releases and architectures have types of their own


class Flavor(StrEnum):
    """How it is built: a release, a nightly from source, or a wrapper that brings the nightly its CUDA."""

    RELEASE = ""
    NIGHTLY = "nightly"
    NIGHTLY_WRAPPER = "nightly-wrapper"


class Cuda(msgspec.Struct, frozen=True, order=True):
    """A GPU build: a CUDA release and the architecture it compiles for."""

    version: CudaVersion
    sm: Sm

    def __str__(self) -> str:
        return f"cuda{self.version.slug}-{self.sm}"


class Accelerator(msgspec.Struct, frozen=True, order=True):
    """A build for an architecture of a backend that backends.toml describes."""

    version: BackendVersion
    arch: str
    name: str  # as that backend writes it
    isa: str = ""  # the one instruction set that goes with it, which names leave out

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, backend: GpuBackend, version: BackendVersion, arch: str) -> Accelerator:
        """The target of a backend's release and architecture."""
        name = backend.target.format(release=str(version).replace(".", "_"), arch=arch)
        return cls(version, arch, name, backend.isa)


class CpuOnly(msgspec.Struct, frozen=True, order=True):
    """A build without GPU code."""

    def __str__(self) -> str:
        return "cpu"


Target = Cuda | Accelerator | CpuOnly
AXES = ("package", "python", "target", "isa", "flavor", "release")


class Variant(msgspec.Struct, frozen=True):
    """A package for one Python, one target and one CPU instruction set."""

    package: Package
    python: PythonVersion
    target: Target
    isa: str
    flavor: Flavor = Flavor.RELEASE
    release: StatedRelease | None = None  # if the name states it: pytorch28-...
    # Made once, as everything asks for them: the name without the package (Python, target, instruction set),
    # and the package's name, which is its file's name too: pytorch-python313-cuda13_0-sm120-avx512.
    cell: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        tail = f"-{self.flavor}" if self.flavor else ""
        isa = "" if self.implies_isa else f"-{self.isa}"
        cell = f"{self.python.slug}-{self.target}{isa}{tail}"
        force_setattr(self, "cell", cell)
        force_setattr(self, "name", f"{self.stem}-{cell}")

    def changed(self, **axes: Any) -> Variant:
        """This variant with other values of some axes."""
        # Not structs.replace: before msgspec 0.21 it kept the old name.
        own = {axis: getattr(self, axis) for axis in AXES}
        return Variant(**own | axes)

    def __hash__(self) -> int:  # its name says all of it, and a text keeps its hash
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    @property
    def stem(self) -> str:
        """The name's first word: pytorch, or pytorch28 if the name states the release."""
        return f"{self.package.name}{self.release.of(self.package.name) if self.release else ''}"

    @property
    def stack(self) -> str:
        """What a torch and its companions have in common: the cell, of a release if names state one."""
        return f"{self.release.line or self.stem}/{self.cell}" if self.release else self.cell

    @property
    def implies_isa(self) -> bool:
        """Whether its instruction set is the target's own, which names leave out."""
        return isinstance(self.target, Accelerator) and self.isa == self.target.isa

    @property
    def cuda(self) -> CudaVersion | None:
        return self.target.version if isinstance(self.target, Cuda) else None

    @property
    def sm(self) -> Sm | None:
        return self.target.sm if isinstance(self.target, Cuda) else None

    @property
    def backend(self) -> str:
        """What it is compiled for, by its name in backends.toml."""
        target = self.target
        return target.version.backend if isinstance(target, Accelerator) else CUDA if self.cuda else CPU

    @property
    def toolkit(self) -> CudaVersion | BackendVersion | None:
        """The release that GPU code is compiled with: CUDA's, or that of another backend."""
        return None if isinstance(self.target, CpuOnly) else self.target.version

    @property
    def arch(self) -> str:
        """The GPU architecture as names write it; empty for the CPU alone."""
        target = self.target
        return target.arch if isinstance(target, Accelerator) else str(self.sm or "")

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Packages in their own order, then Python, CPU-only before CUDA before other backends, SM by number,
        ISA by name."""
        sm, other = self.sm, self.backend if isinstance(self.target, Accelerator) else ""
        return (
            self.package.order,
            self.package.name,
            self.python,
            (other, version_key(str(self.toolkit or ""))),
            sm.number if sm else len(self.arch),  # gfx90a before gfx1030
            self.arch,
            self.isa,
            self.flavor,
            self.stem,
        )

    def of(self, package: Package) -> Variant:
        """The same cell of another package."""
        return self.changed(package=package)

    @classmethod
    def parse(cls, name: str, catalog: Catalog) -> Variant:
        """The variant of a name; BadName says what is wrong, and where."""
        return read_name(name, catalog).variant

    @classmethod
    def try_parse(cls, name: str, catalog: Catalog) -> Variant | None:
        """The variant of a name; None if it is not one."""
        reading = try_read(name, catalog)
        return reading.variant if reading else None


class BadName(Problem):
    """Not the name of a build; the message says what is wrong and at which character."""

    def __init__(self, name: str, column: int, what: str) -> None:
        super().__init__(
            f"{name!r} is not the name of a build: {what}, at character {column}",
            hint=f"a name looks like {EXAMPLE}",
        )
        self.name = name
        self.column = column
        self.what = what


class ParsedName(msgspec.Struct, frozen=True):
    """What a name says: the variant, and how the spelling differs from ours."""

    variant: Variant
    old: tuple[str, ...] = ()  # what is outdated in the spelling, each as a sentence

    @property
    def canonical(self) -> bool:
        return not self.old


def package_name(path: Path | str) -> str:
    """The name that Flox gives a file: its own, or its folder's for a default.nix."""
    folder, name = os.path.split(path)
    return os.path.basename(folder or os.getcwd()) if name == "default.nix" else os.path.splitext(name)[0]


def pname(variant: Variant, line: Line) -> str:
    """The pname of a recipe: torch's carries its release, every other's is the file's name."""
    return f"{line.prefix}-{variant.cell}" if variant.package.is_torch else variant.name


class _NameParts:
    """The parts of a name with their columns: the package, then what dashes separate."""

    def __init__(self, name: str) -> None:
        self.name = name
        package, python, rest = name.partition("-python")
        self.parts = [package, *f"python{rest}".split("-")] if python else name.split("-")
        self.at = 0

    @property
    def column(self) -> int:
        return sum(len(part) + 1 for part in self.parts[: self.at]) + 1

    def take(self, what: str, pattern: str = ".*", expected: str = "") -> str:
        """The next part, which must match a pattern; `what` and `expected` go into a BadName's message."""
        if self.at >= len(self.parts) or not self.parts[self.at]:
            raise BadName(self.name, min(self.column, len(self.name) + 1), f"{what} is missing")
        part = self.parts[self.at]
        if not re.fullmatch(pattern, part, re.DOTALL):
            raise BadName(self.name, self.column, f"expected {expected}, not {part!r}")
        self.at += 1
        return part


def try_read(name: str, catalog: Catalog) -> ParsedName | None:
    """What a name says; None if it is not a variant's."""
    try:
        return read_name(name, catalog)
    except BadName:
        return None


@lru_cache(8192)  # finding, judging and comparing recipes each read all of their names
def read_name(name: str, catalog: Catalog) -> ParsedName:
    """Read a package name, ours or an older spelling of it."""
    if len(name) > LONGEST_NAME:
        raise BadName(name[:40] + "…", LONGEST_NAME, "it is longer than any name")
    parts = _NameParts(name.removesuffix(".nix"))
    package, digits = _package(parts, catalog)
    python = parts.take("the Python version", r"python3\d{1,2}", "a Python such as python313")
    target = _target(parts, catalog)
    old: list[str] = []
    isa = (target.isa if isinstance(target, Accelerator) else "") or _isa(parts, old)
    flavor = _suffix(parts, old)
    variant = Variant(package, PythonVersion.parse(python), target, isa, flavor)
    release = _release(variant, digits, catalog) if digits else None
    return ParsedName(variant.changed(release=release), tuple(old))


def _package(parts: _NameParts, catalog: Catalog) -> tuple[Package, str]:
    """The package that a word names, and the digits of its release if it states one."""
    word = parts.take("the package")
    known = catalog.packages
    if word in known:
        return known[word], ""
    match = re.fullmatch(r"(.*?[^\d])(\d{2,4})", word)
    if match and match[1] in known:
        return known[match[1]], match[2]
    best = nearest(word, known)
    raise BadName(parts.name, 1, f"unknown package {word!r}" + (f" (did you mean {best}?)" if best else ""))


def _release(variant: Variant, digits: str, catalog: Catalog) -> StatedRelease:
    """The line that a release names: if several are called so, one that has the cell's CUDA, and the
    oldest of those, as torchaudio 2.11 came with torch 2.11 and serves later ones."""
    package = variant.package.name
    lines = [line for line in catalog.lines.values() if line.release.of(package) == digits]
    if not lines:
        return StatedRelease("", ((package, digits),))
    return min(
        lines, key=lambda line: (line.build_for(variant.toolkit) is None, version_key(line.torch))
    ).release


def read_target(text: str, catalog: Catalog) -> Target:
    """A target by itself, as names write it; BadName says what is wrong."""
    parts = _NameParts(text)
    target = _target(parts, catalog)
    if parts.at < len(parts.parts):
        raise BadName(text, parts.column, f"unknown ending {parts.parts[parts.at]!r}")
    return target


def _target(parts: _NameParts, catalog: Catalog) -> Target:
    """A target as its backend writes it: a word with the release, then the architecture."""
    release = r"(\d{1,2})_(\d{1,2})"
    firsts = {
        name: backend.target.partition("-")[0].replace("{release}", release)
        for name, backend in catalog.backends.items()
    }
    expected = "cpu or a CUDA such as cuda13_0"
    word = parts.take("cpu or the CUDA version", "|".join(firsts.values()), expected)
    matches = ((name, re.fullmatch(pattern, word)) for name, pattern in firsts.items())
    name, first = next((name, match) for name, match in matches if match)
    if name == CPU:
        return CpuOnly()
    backend = catalog.backends[name]
    arch = parts.take("the GPU architecture", backend.arch, f"a GPU architecture such as {backend.example}")
    if name == CUDA:
        return Cuda(CudaVersion.parse(word), Sm.parse(arch))
    return Accelerator.of(backend, BackendVersion(name, ".".join(first.groups())), arch)


def _isa(parts: _NameParts, old: list[str]) -> str:
    expected = "an instruction set such as avx512"
    word = parts.take("the CPU instruction set", r"[a-z][a-z0-9_.]*", expected)
    isa = word.replace(".", "_")
    if isa != word:
        old.append(f"{word} has a dot, which Flox cannot reach: write {isa}")
    return isa


def _suffix(parts: _NameParts, old: list[str]) -> Flavor:
    if parts.at == len(parts.parts):
        return Flavor.RELEASE
    rest = "-".join(parts.parts[parts.at :])
    if rest == "magma":
        old.append("every GPU build has MAGMA: leave -magma out")
        return Flavor.RELEASE
    if rest and rest in list(Flavor):
        return Flavor(rest)
    raise BadName(parts.name, parts.column, f"unknown ending {rest!r}")
