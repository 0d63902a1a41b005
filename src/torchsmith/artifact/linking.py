"""Shared libraries that an artifact needs: which are there, who brings the rest, which are missing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from torchsmith.artifact.elf import Links
from torchsmith.artifact.known import known

LinkState = Literal["present", "system", "driver", "elsewhere", "unbundled", "optional", "missing"]
LOADER_PLACES = tuple(
    Path(folder) / triple
    for folder in ("/lib", "/usr/lib", "/usr/local/lib", "/lib64", "/usr/lib64")
    for triple in ("", "x86_64-linux-gnu", "aarch64-linux-gnu")
)
BUILD_PLACES = ("/build/", "/tmp/", "/home/", "/root/")


@dataclass(frozen=True, slots=True)
class Linked:
    """A library, where it lies, and what it asks for."""

    name: str
    place: Path | None
    links: Links
    torch: bool = False  # whether it is torch's own
    family: tuple[str, ...] = ()  # beginnings of the names of its package's own libraries


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """A shared library that others need, and how it is found."""

    name: str
    found: LinkState
    by: str  # the first library that needs it


@dataclass(frozen=True, slots=True)
class Setting:
    """What can be told of the machine that an artifact is to run on."""

    installed: bool  # paths can be followed on this machine
    local: bool  # a wheel for machines like the one that built it, whose libraries it uses


def needs_of(libraries: Iterable[Linked], names: Collection[str], setting: Setting) -> list[Need]:
    """How every needed library is found."""
    found: dict[str, Need] = {}
    for library in libraries:
        for needed in library.links.needed:
            where = _where(needed, library, names, setting)
            if needed not in found or (found[needed].found == "missing" and where != "missing"):
                found[needed] = Need(needed, where, library.name)
    return sorted(found.values())


def _where(needed: str, library: Linked, names: Collection[str], setting: Setting) -> LinkState:
    installed = setting.installed
    if PurePosixPath(needed).name in names:
        return "present"
    if installed and library.place and _lies_in(_folders(library.links.runpath, library.place), needed):
        return "present"
    if needed.startswith(known().names.system) or (installed and _lies_in(LOADER_PLACES, needed)):
        return "system"
    if needed.startswith(known().names.driver):
        return "driver"
    if needed.startswith((*known().names.own, *known().names.brought)) and not library.torch:
        return "elsewhere"  # a companion finds torch's libraries loaded
    if needed.startswith(known().names.cuda) and not library.torch and not library.links.runpath:
        return "elsewhere"  # torch, or the program, has loaded CUDA's libraries before
    if not installed and (library.links.runpath or needed.startswith(known().names.cuda)):
        return "elsewhere"
    if PurePosixPath(library.name).name.startswith(known().names.optional):
        return "optional"
    family = (*known().names.own, *library.family)
    return "unbundled" if setting.local and not needed.startswith(family) else "missing"


def _lies_in(folders: Iterable[Path], name: str) -> bool:
    return any(os.path.exists(folder / name) for folder in folders)


def _folders(runpath: Iterable[str], place: Path) -> list[Path]:
    origin = str(place.parent)
    return [Path(text.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) for text in runpath]


def strange_paths(libraries: Iterable[Linked]) -> list[str]:
    """Places of the machine that built it, which a library would look into on every other machine."""
    return [
        f"{library.name} looks for libraries in {path}"
        for library in libraries
        for path in library.links.runpath
        if path.startswith(BUILD_PLACES)
    ]
