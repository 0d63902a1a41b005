"""What lies at a path: one library, a wheel, or a folder such as a Nix result, with its files by name."""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from torchsmith.artifact.known import Owners
from torchsmith.artifact.source import Damaged, FileSlice, open_file, printable
from torchsmith.artifact.wheel import open_member, open_zip, read_member, refuse_bombs
from torchsmith.edge.problem import CannotRead, TooLarge

LIBRARY = re.compile(r"\.so(\.\d+)*$")
TEXTS = re.compile(r"(^|/)([^/]+/version\.py|[^/]+\.dist-info/(WHEEL|METADATA))$")
MOST_FILES = 500_000
MOST_TEXT = 16 << 10  # what is asked for stands in the first lines
MOST_TEXTS = 2000

ArtifactKind = Literal["library", "wheel", "folder"]


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the artifact, opened only while it is looked at."""

    name: str
    size: int
    open: Callable[[], AbstractContextManager[FileSlice]]
    place: Path | None = None  # where it lies on disk, links resolved


@dataclass
class Contents:
    """The files of an artifact."""

    path: Path
    kind: ArtifactKind
    owners: Owners
    libraries: list[Item] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    other_bytes: int = 0
    faults: list[str] = field(default_factory=list)


@contextmanager
def open_contents(path: Path, owners: Owners) -> Iterator[Contents]:
    """The files at a path; a Problem says why there are none to look at."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise CannotRead(f"cannot read {printable(str(path))}: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        yield _folder(path, owners)
    elif path.suffix in (".whl", ".zip"):
        with open_zip(path) as archive:
            yield _wheel(path, archive, found.st_size, owners)
    else:
        with open_file(path):  # refuses what is no file before anything is asked of it
            item = Item(printable(path.name), found.st_size, lambda: open_file(path), path.resolve())
        yield Contents(path, "library", owners, [item])


def _folder(root: Path, owners: Owners) -> Contents:
    """Every library below a folder, each once; links are followed, and a loop is walked once."""
    contents = Contents(root, "folder", owners)
    top, files = root.resolve(), 0
    seen: set[tuple[int, int]] = set()
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for name, path in _entries(prefix, folder, contents):
            files += 1
            if files > MOST_FILES:
                raise TooLarge(f"{root} holds more than {MOST_FILES} files", hint="name the package's folder")
            try:
                found = os.stat(path)
            except OSError as error:
                if contents.owners.package_of(name) is not None:
                    contents.faults.append(f"{name} cannot be read: {error.strerror}")
                continue
            if stat.S_ISDIR(found.st_mode) and path.is_symlink() and path.resolve().is_relative_to(top):
                continue  # it is walked under its own name
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                if stat.S_ISDIR(found.st_mode):
                    folders.append((f"{name}/", path))
                elif stat.S_ISREG(found.st_mode):
                    _file(contents, name, path, found.st_size)
                elif LIBRARY.search(name):
                    contents.faults.append(f"{name} is not a regular file")
    contents.libraries.sort(key=lambda item: item.name)
    return contents


def _entries(prefix: str, folder: Path, contents: Contents) -> Iterator[tuple[str, Path]]:
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError as error:
        contents.faults.append(f"{prefix or '.'} cannot be read: {error.strerror}")
        return
    for name in names:
        yield f"{prefix}{printable(name)}", folder / name


def _file(contents: Contents, name: str, path: Path, size: int) -> None:
    if LIBRARY.search(name):
        contents.libraries.append(Item(name, size, lambda: open_file(path), path.resolve()))
        return
    if contents.owners.package_of(name) is not None:  # the rest of an environment does not count
        contents.other_bytes += size
    if TEXTS.search(name):
        with open_file(path) as part:
            _keep(contents, name, lambda: part.read(0, min(part.size, MOST_TEXT)))


def _keep(contents: Contents, name: str, read: Callable[[], bytes]) -> None:
    """The beginning of a text; one that cannot be read is a fault where it belongs to a package of ours."""
    if len(contents.texts) >= MOST_TEXTS:
        return
    try:
        contents.texts[name] = read().decode("utf-8", "replace")
    except Damaged as fault:
        if contents.owners.package_of(name) is not None:
            contents.faults.append(f"{name}: {fault.message}")


def _wheel(path: Path, archive: zipfile.ZipFile, size: int, owners: Owners) -> Contents:
    """The members of a wheel; nothing is written under a member's name, so no name can lead outside."""
    contents = Contents(path, "wheel", owners)
    members = archive.infolist()
    refuse_bombs(members, size)
    for member in members:
        name = printable(member.filename)
        if LIBRARY.search(name):
            contents.libraries.append(Item(name, member.file_size, partial(open_member, archive, member)))
            continue
        contents.other_bytes += member.file_size
        if TEXTS.search(name):
            _keep(contents, name, partial(read_member, archive, member, MOST_TEXT))
    contents.libraries.sort(key=lambda item: item.name)
    return contents
