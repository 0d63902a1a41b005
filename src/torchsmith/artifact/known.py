"""Which libraries are PyTorch's own, and who brings the others: data/libraries.toml as values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

from torchsmith.artifact.cpu import OwnSpaces
from torchsmith.artifact.tables import Table, read_table
from torchsmith.catalog import Catalog, Package


class FixedCode(Table, frozen=True):
    """Containers that a library linked in holds for these targets alone, whatever a build is for."""

    targets: tuple[str, ...]
    containers: int


class LibraryNames(Table, frozen=True):
    """Beginnings of library names."""

    required: tuple[str, ...]
    gpu_code: tuple[str, ...]
    own: tuple[str, ...]
    brought: tuple[str, ...]
    third_party: tuple[str, ...]
    system: tuple[str, ...]
    driver: tuple[str, ...]
    vendor: tuple[str, ...]


class ReleasePatterns(Table, frozen=True):
    """Patterns of what names a backend's release."""

    stated: str  # a variable of version.py
    local: str  # in the local part of a release
    folder: str  # of the run time, as Nix calls it
    library: str  # the run time


class Known(Table, frozen=True):
    """data/libraries.toml."""

    source: str
    names: LibraryNames
    releases: dict[str, ReleasePatterns]
    nccl: FixedCode


@cache
def known() -> Known:
    return read_table("libraries.toml", Known)


Role = Literal["own", "unknown", "bundled", "other"]  # the first names a file best


def is_bundled(name: str) -> bool:
    """Whether a library is where tools that make wheels portable put those of others."""
    return any(part.endswith(".libs") for part in name.split("/"))


def is_third_party(name: str) -> bool:
    """Whether a library is known as one of others, by its name."""
    names = known().names
    return name.startswith((*names.vendor, *names.brought, *names.system, *names.driver, *names.third_party))


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose a file is, by the packages of a catalog."""

    packages: tuple[Package, ...]

    @classmethod
    def of(cls, catalog: Catalog) -> Owners:
        return cls(tuple(catalog.packages.values()))

    def package_of(self, name: str) -> Package | None:
        """The package whose folder a file is in, or whose library it is by its name."""
        path = PurePosixPath(name)
        folders = set(path.parts[:-1])
        for package in self.packages:
            if folders.intersection(package.modules) or path.name.startswith(package.libraries):
                return package
        return None

    def role_of(self, name: str) -> Role:
        """Whether a library is a package's own, is bundled with it, or has nothing to do with any. Unknown:
        its place is a package's, and its name is not known."""
        path = PurePosixPath(name)
        package = self.package_of(name)
        own = (*known().names.own, *(package.libraries if package else ()))
        if path.name.startswith(own):
            return "own"
        if package is None:
            return "bundled" if is_bundled(name) else "other"
        if not path.name.startswith("lib"):
            return "own"
        return "bundled" if is_third_party(path.name) else "unknown"

    def spaces_of(self, package: Package | None) -> OwnSpaces:
        """The namespaces of a package's own code, torch's among them, by which its templates are known."""
        every = tuple(space for package in self.packages for space in package.namespaces)
        return OwnSpaces(every, unclaimed=package is not None and not package.namespaces)
