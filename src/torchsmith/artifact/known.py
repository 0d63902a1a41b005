"""Which libraries are PyTorch's own, and who brings the others: data/libraries.toml as values."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from torchsmith.artifact.features import DATA
from torchsmith.catalog import Package, builtin_catalog


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A library that may be linked to or linked in."""

    library: str
    symbol: str


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Beginnings of library names."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    own: tuple[str, ...]
    system: tuple[str, ...]
    driver: tuple[str, ...]
    cuda: tuple[str, ...]


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """data/libraries.toml."""

    source: str
    names: Names
    blas: dict[str, Provider]
    magma: Provider


@cache
def known() -> Known:
    return msgspec.convert(tomllib.loads((DATA / "libraries.toml").read_text()), Known)


Role = Literal["own", "bundled", "other"]


def package_of(name: str) -> Package | None:
    """The package whose folder a file lies in."""
    folders = set(PurePosixPath(name).parts[:-1])
    packages = builtin_catalog().packages.values()
    return next((package for package in packages if folders.intersection(package.modules)), None)


def role_of(name: str) -> Role:
    """Whether a library is PyTorch's own, came along with it, or has nothing to do with it."""
    file = PurePosixPath(name).name
    if file.startswith(known().names.own):
        return "own"
    if package_of(name) is not None:
        return "bundled" if file.startswith("lib") else "own"
    return "bundled" if any(part.endswith(".libs") for part in PurePosixPath(name).parts) else "other"
