"""One pass over an artifact: every library is opened once, and its facts are kept as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from torchsmith.artifact import iced
from torchsmith.artifact.container import UNNAMED, Container, scan
from torchsmith.artifact.contents import Contents, Item, open_contents
from torchsmith.artifact.cpu import CpuCode, OwnSpaces, Tally, cpu_code
from torchsmith.artifact.elf import Elf, ElfMachine, Links, NotElf, links_of, read_elf
from torchsmith.artifact.identity import (
    PythonBuild,
    StatedToolkit,
    pythons_of,
    released_as,
    toolkits_of,
    versions_of,
)
from torchsmith.artifact.known import Owners, Role, is_bundled, is_third_party, known
from torchsmith.artifact.macho import is_macho, read_macho
from torchsmith.artifact.metallib import METALLIB, metallib
from torchsmith.artifact.readers import containers_of, containers_of_file
from torchsmith.artifact.recorded import RecordedLine, recorded_lines
from torchsmith.artifact.source import EXPECTED, Damaged, Seen, unseen
from torchsmith.catalog import Catalog, Package, builtin_catalog
from torchsmith.core.problem import Exit, Invalid, Problem
from torchsmith.core.text import counted, shell_word

Progress = Callable[[str, int, int], None]  # the current file, bytes done, bytes in all
LinkState = Literal["present", "system", "elsewhere"]
STORE_PATH = re.compile(r"/store/[0-9a-z]{32}-")  # of Nix, wherever its store is
BY_TARGET = (".co", ".hsaco")  # files of which a library loads those for the GPU that it finds


@dataclass
class Library:
    """What was seen of one library."""

    name: str
    role: Role
    size: int
    package: Package | None = None  # its owner, by its place and its name
    place: Path | None = None  # where it is on disk
    machine: ElfMachine | None = None
    system: str = ""  # the oldest macOS that it runs on; empty: Linux
    links: Links = field(default_factory=Links)
    containers: list[Container] = field(default_factory=list)
    cpu: CpuCode | None = None
    recorded: tuple[RecordedLine, ...] = ()  # the compiler's command lines
    code: int = 0  # bytes of machine code
    fault: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """A shared library that others need: in the artifact, of the system or the driver, or elsewhere."""

    name: str
    found: LinkState
    by: str  # the first library that needs it


@dataclass
class Inspection:
    """What was seen of an artifact."""

    path: str
    kind: str
    libraries: list[Library]
    versions: dict[Package, str]
    packages: frozenset[Package]  # the owners of the libraries, by their places
    foreign: dict[str, str]  # name and release of a wheel of an unknown package
    known: bool  # it is of a package of ours, so more than its GPU code can be judged
    toolkits: list[StatedToolkit]
    pythons: list[PythonBuild]
    needs: list[Need]
    other_bytes: int
    faults: list[str]
    remarks: list[str] = field(default_factory=list)  # what was left out
    unknown: list[str] = field(default_factory=list)  # libraries of it, or that it needs, of unknown origin

    @property
    def own(self) -> list[Library]:
        return [library for library in self.libraries if library.role == "own"]

    @property
    def recorded(self) -> list[RecordedLine]:
        """The command lines of the compiler that its own libraries record, each once."""
        return list(dict.fromkeys(line for library in self.own for line in library.recorded))

    @property
    def machine(self) -> ElfMachine | None:
        """The architecture of its own libraries, if they agree."""
        machines = {library.machine for library in self.own if library.machine}
        return machines.pop() if len(machines) == 1 else None

    @property
    def cpu_code(self) -> dict[str, CpuCode]:
        """The CPU code of its own libraries that was read, by their names."""
        return {library.name: library.cpu for library in self.own if library.cpu is not None}

    @property
    def containers(self) -> list[Container]:
        return [container for library in self.own for container in library.containers]


def silent(what: str, done: int, total: int) -> None:
    """No progress to show."""


def inspect(
    path: Path,
    progress: Progress = silent,
    package: Package | None = None,
    catalog: Catalog | None = None,
    *,
    cpu: bool = True,
) -> Inspection:
    """Inspect everything at a path; of several packages only `package`, if one is named. Raises Invalid if
    there is no library of a known package."""
    with open_contents(path, Owners.of(catalog or builtin_catalog())) as contents:
        items = _in_scope(contents, package)
        recognised = bool(items)
        items = items or list(_all_libraries(contents, package))
        source_alone = contents.kind == "wheel" and package is None and not contents.libraries
        gpu_files = _gpu_files(contents, package, recognised)
        if not source_alone and not gpu_files and not any(role == "own" for _, role in items):
            whose = package.title if package else "any known package"
            wheels = [path / name for name in sorted(contents.wheels)]
            held = f"it holds {counted(len(wheels), 'wheel')}"
            hint = f"{held}: torchsmith verify {shell_word(str(wheels[0]))}" if wheels else EXPECTED
            raise Invalid(f"{path} holds no library of {whose}", hint=hint)
        libraries = []
        total, done = sum(item.size for item, _ in items), 0
        for item, role in items:
            counter = _Counter(progress, item, done, total, 2 if contents.kind == "wheel" else 1)
            owner = contents.owners.package_of(item.name)
            foreign = package is None and contents.owners.role_of(item.name) in ("bundled", "other")
            spaces = None if foreign else contents.owners.spaces_of(owner)
            library = Library(item.name, role, item.size, owner, item.place)
            try:
                _inspect_library(library, item, spaces, counter.count, cpu=cpu)
            except NotElf as fault:
                if contents.kind == "library":
                    raise NotElf(f"{item.name} is not a library: {fault.message}", hint=EXPECTED) from fault
                library.fault = fault.message
            if item.by_content and library.links.program:
                continue
            vendor = PurePosixPath(item.name).name.startswith(known().names.vendor)
            # A tool that makes wheels portable moves a package's own libraries too.
            if not recognised and library.containers and not vendor:
                library.role = "own"
            libraries.append(library)
            done += item.size
        libraries += [_gpu_file(files) for files in gpu_files]
        read = {item.name for item, _ in items} | {item.name for files in gpu_files for item in files}
        _check_unread(contents, read)
        progress("", total, total)
        return _inspection(contents, libraries, recognised)


def _in_scope(contents: Contents, package: Package | None) -> Sequence[tuple[Item, Role]]:
    """The libraries to inspect; a path to a single library is always one of them."""
    if contents.kind == "library":
        return [(item, "own") for item in contents.libraries]
    owners = contents.owners
    roles: list[tuple[Item, Role]] = [(item, owners.role_of(item.name)) for item in contents.libraries]
    chosen = [
        (item, role)
        for item, role in roles
        if role != "other" and (package is None or owners.package_of(item.name) in (package, None))
    ]
    return chosen if any(role == "own" for _, role in chosen) else []


def _all_libraries(contents: Contents, package: Package | None) -> Sequence[tuple[Item, Role]]:
    """Every library of a wheel or folder that holds nothing of ours: what is there can still be listed."""
    if package is not None:
        return []
    return [(item, "bundled" if is_bundled(item.name) else "own") for item in contents.libraries]


def _gpu_files(contents: Contents, package: Package | None, recognised: bool) -> list[list[Item]]:
    """The files of GPU code to look at. Those that a library loads by the GPU's name, as rocBLAS does, belong
    together if they are in one folder, and so do all such files of a known package."""
    files: dict[str, list[Item]] = {}
    for item in contents.gpu_files:
        folder, _, name = item.name.rpartition("/")
        owner = contents.owners.package_of(item.name)
        ours = owner is not None and package in (owner, None)
        if ours or (not recognised and package is None):
            together = name.endswith(BY_TARGET) or recognised
            files.setdefault(folder if together else item.name, []).append(item)
    return list(files.values())


def _gpu_file(files: Sequence[Item]) -> Library:
    """A file of GPU code, or files of which each is for another GPU; what has none is not judged for anything
    else."""
    first, *others = files
    name = f"{first.name} and {len(others)} more" if others else first.name
    library = Library(name, "own", sum(item.size for item in files), place=first.place)
    for item in files:
        try:
            with item.open() as source:
                library.containers += containers_of_file(source, item.name)
        except Damaged as fault:
            where = f"{item.name}: " if others else ""
            library.fault = library.fault or f"{where}damaged: {fault.message}"
    if others:
        entries = tuple(entry for container in library.containers for entry in container.entries)
        library.containers = [Container(UNNAMED, 0, entries)]
    library.role = "own" if library.containers or library.fault else "bundled"
    return library


def _check_unread(contents: Contents, read: Collection[str]) -> None:
    """Check the members of a wheel that were not opened yet against its table."""
    for item in (*contents.libraries, *contents.gpu_files) if contents.kind == "wheel" else ():
        if item.name not in read:
            try:
                with item.open():
                    continue
            except Damaged as fault:
                contents.faults.append(f"{item.name}: {fault.message}")


@dataclass
class _Counter:
    """Progress within a file; a member of a wheel is passed over twice, to unpack and to read it."""

    progress: Progress
    item: Item
    before: int
    total: int
    passes: int
    read: int = 0

    def count(self, size: int) -> None:
        self.read += size
        self.progress(self.item.name, self.before + min(self.read // self.passes, self.item.size), self.total)


def _inspect_library(
    library: Library, item: Item, spaces: OwnSpaces | None, seen: Seen = unseen, *, cpu: bool = True
) -> None:
    """Read one library; what is wrong with it is noted as its fault. Raises NotElf for another file."""
    try:
        with item.open(seen) as source:
            if is_macho(source):
                library.machine, library.system = read_macho(source)
                library.containers = list(scan(source, {METALLIB: metallib}))
                return
            elf = read_elf(source)
            library.machine = elf.machine
            if not elf.sections:
                library.fault = "its section headers were removed: its links and CPU code cannot be read"
            library.code = sum(section.size for section in elf.sections if section.holds_code)
            library.links = links_of(elf)
            if library.role == "own" and library.links.program:
                library.fault = "it is a program, not a library that Python could load"
            library.containers = list(containers_of(elf))
            if library.role == "unknown" and library.containers:
                library.role = "own"
            if library.role == "own":
                _inspect_own(library, elf, spaces, cpu=cpu)
    except NotElf:
        raise
    except Damaged as fault:
        library.fault = f"damaged: {fault.message}"
    except MemoryError:
        library.fault = "it could not be read whole: there is not enough memory"
    except Problem as problem:
        if problem.exit == Exit.ENVIRONMENT:
            raise  # this machine's fault and not the library's
        library.fault = problem.message


def _inspect_own(library: Library, elf: Elf, spaces: OwnSpaces | None, *, cpu: bool) -> None:
    library.recorded = recorded_lines(elf)
    if cpu and (elf.machine != "x86_64" or iced.INSTALLED):
        try:
            library.cpu = cpu_code(elf, library.name, spaces)
        except Damaged:  # TensorFlow names more functions than are read
            if spaces is not None:
                raise
            library.cpu = CpuCode(elf.machine, complete=False, own=Tally(), unnamed=Tally(), dispatched=())


def _inspection(contents: Contents, libraries: list[Library], recognised: bool) -> Inspection:
    own = [library for library in libraries if library.role == "own" and library.machine]
    names = {item.name.rsplit("/", 1)[-1] for item in contents.libraries}
    names.update(library.links.soname for library in libraries)
    return Inspection(
        path=str(contents.path),
        kind=contents.kind,
        libraries=libraries,
        versions=versions_of(contents.texts, contents.owners),
        packages=frozenset(library.package for library in libraries if library.package),
        foreign={} if recognised else released_as(contents.texts),
        known=recognised,
        toolkits=toolkits_of(contents.texts, (library.links for library in libraries), contents.owners),
        pythons=pythons_of([library.name for library in libraries], contents.texts),
        needs=needs_of(own, names),
        other_bytes=contents.other_bytes,
        faults=contents.faults,
        remarks=contents.remarks,
        unknown=[
            *(library.name for library in libraries if library.role == "unknown"),
            *_needed_files(own, contents),
        ],
    )


def _needed_files(own: Sequence[Library], contents: Contents) -> list[str]:
    """Files of the artifact that its own libraries load, and that no package has by place or name."""
    owners, places = contents.owners, dict(contents.places)
    for item in contents.libraries:
        if owners.role_of(item.name) == "other":
            places[PurePosixPath(item.name).name] = item.place
    outputs = {_output(library.place) for library in own}
    needed = dict.fromkeys(PurePosixPath(name).name for library in own for name in library.links.needed)
    return [
        name
        for name in needed
        if name in places and not is_third_party(name) and _output(_resolved(places[name])) in outputs
    ]


def _resolved(place: Path | None) -> Path | None:
    return place.resolve() if place else None


def _output(place: Path | None) -> str:
    """The output of Nix that a file is in; empty if it is in none."""
    match = STORE_PATH.search(str(place or ""))
    return str(place)[: match.start()] + str(place)[match.start() :].split("/")[2] if match else ""


def needs_of(libraries: Iterable[Library], names: Collection[str]) -> list[Need]:
    """The shared libraries that others need, each once; those of some names are in the artifact."""
    usual = (*known().names.system, *known().names.driver)
    needs: dict[str, Need] = {}
    for library in libraries:
        for needed in library.links.needed:
            present = PurePosixPath(needed).name in names
            found: LinkState = "present" if present else "system" if needed.startswith(usual) else "elsewhere"
            needs.setdefault(needed, Need(needed, found, library.name))
    return sorted(needs.values())
