"""What an artifact states about itself: versions, Python, releases of backends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from torchsmith.artifact.elf import Links
from torchsmith.artifact.known import Owners, ReleasePatterns, known
from torchsmith.catalog import CudaVersion, Package, PythonVersion
from torchsmith.catalog.axes import BackendVersion


def versions_of(texts: dict[str, str], owners: Owners) -> dict[Package, str]:
    """The release of each package in the artifact, from its version.py."""
    versions: dict[Package, str] = {}
    for name, text in sorted(texts.items()):
        package = owners.package_of(name)
        parts = PurePosixPath(name).parts
        if package is None or parts[-1] != "version.py" or parts[-2] not in package.modules[:1]:
            continue
        version = re.search(r"^__version__\s*=\s*['\"]([\w.+!-]{1,60})['\"]", text, re.MULTILINE)
        if version:
            versions[package] = version[1]
    return versions


@dataclass(frozen=True, slots=True)
class StatedToolkit:
    """A release of CUDA or another backend, or only its major number, and what states it."""

    backend: str
    release: CudaVersion | BackendVersion | int
    by: str

    def agrees(self, other: CudaVersion | BackendVersion | int) -> bool:
        if isinstance(self.release, int) or isinstance(other, int):
            return _major(self.release) == _major(other)
        return self.release == other


def _major(release: CudaVersion | BackendVersion | int) -> int:
    return int(str(release).partition(".")[0] or 0)


def toolkits_of(texts: dict[str, str], links: Iterable[Links], owners: Owners) -> list[StatedToolkit]:
    """The releases of backends that an artifact states, each once, the most exact first."""
    versions = {
        name: text
        for name, text in sorted(texts.items())
        if PurePosixPath(name).name == "version.py" and owners.package_of(name) is not None
    }
    linked = list(links)
    rows = [
        StatedToolkit(backend, release, by)
        for backend, patterns in known().releases.items()
        for release, by in _releases(backend, patterns, versions, linked).items()
    ]
    return sorted(rows, key=lambda row: isinstance(row.release, int))


def _releases(
    backend: str, patterns: ReleasePatterns, versions: dict[str, str], links: Iterable[Links]
) -> dict[CudaVersion | BackendVersion | int, str]:
    releases: dict[CudaVersion | BackendVersion | int, str] = {}

    def keep(stated: re.Match[str] | None, by: str) -> None:
        if stated:
            number = f"{stated[1]}.{stated[2]}"
            version = CudaVersion.parse(number) if backend == "cuda" else BackendVersion(backend, number)
            releases.setdefault(version, by)

    for name, text in versions.items():
        variable = rf"^{patterns.stated}\b[^=\n]*=\s*['\"](\d{{1,3}})\.(\d{{1,3}})"
        keep(re.search(variable, text, re.MULTILINE), name)
        local = rf"^__version__\s*=\s*['\"][\w.]+\+{patterns.local}['\"]"
        keep(re.search(local, text, re.MULTILINE), f"the release in {name}")
    for link in links:
        for path in link.runpath:  # Nix names what a folder holds
            keep(re.search(rf"\b{patterns.folder}-(\d{{1,3}})\.(\d{{1,3}})\.", path), path)
        for needed in link.needed:
            linked = re.fullmatch(rf"{patterns.library}[\w.-]*\.so\.(\d{{1,3}})(\.\d+)*", needed)
            if linked:
                releases.setdefault(int(linked[1]), needed)
    return releases


@dataclass(frozen=True, slots=True)
class PythonBuild:
    """A Python release, and whether it is the one without the global lock, which loads other modules."""

    version: PythonVersion
    free_threaded: bool

    def __str__(self) -> str:
        return f"{self.version}{'t' if self.free_threaded else ''}"


def pythons_of(libraries: Iterable[str], texts: dict[str, str]) -> list[PythonBuild]:
    """The Pythons that extension modules are for, by their names, their folder and the wheel's tag."""
    modules = list(libraries)
    tags = [text for name, text in texts.items() if name.endswith("/WHEEL")]
    matches = (
        match
        for pattern, places in (
            (r"\.cpython-(3)(\d{1,2})(t?)[a-z]*-", modules),
            (r"/python(3)\.(\d{1,2})(t?)/", [*modules, *texts]),
            (r"^Tag: cp(3)\d{1,2}-cp3(\d{1,2})(t?)-", tags),
        )
        for place in places
        if (match := re.search(pattern, place, re.MULTILINE))
    )
    builds = (PythonBuild(PythonVersion(int(found[1]), int(found[2])), bool(found[3])) for found in matches)
    return list(dict.fromkeys(builds))


def released_as(texts: dict[str, str]) -> dict[str, str]:
    """Names and releases in a wheel's own METADATA."""
    releases = {}
    for name, text in texts.items():
        fields = dict(re.findall(r"^(Name|Version): ([\w.+!-]{1,80})\s*$", text, re.MULTILINE))
        if name.endswith(".dist-info/METADATA") and len(fields) == 2:
            releases[fields["Name"]] = fields["Version"]
    return releases
