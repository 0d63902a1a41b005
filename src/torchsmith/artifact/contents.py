"""The contents of a path: one library, a wheel, or a folder such as a Nix result, with its files by name."""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Literal, get_args

from torchsmith.artifact.known import Owners, Role
from torchsmith.artifact.source import (
    CHUNK,
    EXPECTED,
    MOST_RATIO,
    Damaged,
    FileSlice,
    Seen,
    above_store,
    open_file,
    resolve_below,
    unseen,
)
from torchsmith.catalog import Package
from torchsmith.core.problem import CannotRead, Invalid, MissingRequirement, Problem, TooLarge
from torchsmith.core.text import printable

LIBRARY = re.compile(r"\.so(\.\d+)*$|\.dylib$")
FOR_WINDOWS = tuple(f"-{tag}.whl" for tag in ("win_amd64", "win_arm64", "win32"))
# GPU code in files of its own.
GPU_FILES = re.compile(r"\.(cubin|fatbin|co|hsaco|hipfb|metallib)$")
TEXTS = re.compile(r"(^|/)([^/]+/version\.py|[^/]+\.dist-info/(WHEEL|METADATA))$")
MOST_FILES = 500_000
MOST_TEXT = 16 << 10  # bytes of a text; what is read is in its first lines
MOST_TEXTS = 2000
MOST_UNPACKED = 16 << 30  # no library comes near this size
HARMLESS = 16 << 20  # bytes; below this size no ratio can hurt
MOST_TABLE = 16 << 20  # the table of torch 2.10's 12 thousand files takes 1.4 MB
# The other methods unpack without a bound on memory, and no wheel uses them.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What reading a damaged archive raises; OSError apart, because it may be about this machine.
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError)

ArtifactKind = Literal["library", "wheel", "folder"]
ROLES: tuple[Role, ...] = get_args(Role)  # the best first
ContentKind = Literal["library", "gpu", ""]
MAGIC_BYTES = 24
ELF_MAGIC, SHARED, GPU_MACHINES = b"\x7fELF", 3, (190, 224)
GPU_MAGICS = (b"\x50\xed\x55\xba", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"MTLB")


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the artifact, opened only while it is read."""

    name: str
    size: int
    open: Callable[..., AbstractContextManager[FileSlice]]  # with what counts the bytes that are read
    place: Path | None = None  # where it is on disk, links resolved
    by_content: bool = False  # its name does not say that it is a library


@dataclass
class Contents:
    """The files of an artifact."""

    path: Path
    kind: ArtifactKind
    owners: Owners
    libraries: list[Item] = field(default_factory=list)
    gpu_files: list[Item] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    wheels: list[str] = field(default_factory=list)
    other_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # what was left out
    places: dict[str, Path | None] = field(default_factory=dict)  # of files that are not libraries


@contextmanager
def open_contents(path: Path, owners: Owners) -> Iterator[Contents]:
    """The files at a path. Raises CannotRead, Damaged, Invalid, TooLarge."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            os.listdir(path)
    except OSError as error:
        place = f" (a link to {path.readlink()})" if path.is_symlink() else ""
        raise CannotRead(f"cannot read {printable(f'{path}{place}')}: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        yield _folder(path, owners)
    elif path.name.endswith(FOR_WINDOWS):
        raise Invalid(
            f"{printable(str(path))} is a wheel for Windows, whose libraries are not read", hint=EXPECTED
        )
    elif path.suffix in (".whl", ".zip"):
        with _open_zip(path) as archive:
            yield _wheel(path, archive, status.st_size, owners)
    else:
        with open_file(path):  # refuses what is not a regular file
            item = Item(printable(path.name), status.st_size, partial(open_file, path), path.resolve())
        if GPU_FILES.search(item.name):
            yield Contents(path, "library", owners, gpu_files=[item])
        else:
            yield Contents(path, "library", owners, [item])


def _folder(root: Path, owners: Owners) -> Contents:
    """Every file below a folder, each once, under the name by which a package has it. Links are followed, but
    not upwards, and a folder is read once for each package that has it."""
    contents = Contents(root, "folder", owners)
    top, files = root.resolve(), 0
    own_store = above_store(top)
    seen: set[tuple[int, int, Package | None]] = set()
    regular: dict[tuple[int, int], tuple[str, Path, int]] = {}  # under the name that says most
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for name, entry in _entries(prefix, folder, contents):
            is_link = entry.is_symlink()
            path = resolve_below(entry, own_store) if is_link and own_store else entry
            files += 1
            if files > MOST_FILES:
                raise TooLarge(f"{root} holds more than {MOST_FILES} files", hint="name the package's folder")
            try:
                status = os.stat(path)
            except OSError as error:
                if contents.owners.package_of(name) is not None:
                    contents.faults.append(f"{name} cannot be read: {error.strerror}")
                continue
            inode = (status.st_dev, status.st_ino)
            if stat.S_ISDIR(status.st_mode):
                owner = owners.package_of(f"{name}/x")
                if is_link:
                    target = path.resolve()
                    if top.is_relative_to(target):
                        remark = f"{name} leads upwards to {printable(str(target))}: not followed"
                        contents.remarks.append(remark)
                        continue
                    if target.is_relative_to(top) and owner is None:
                        continue  # it is walked under its own name
                if (*inode, owner) not in seen:
                    seen.add((*inode, owner))
                    folders.append((f"{name}/", path))
            elif stat.S_ISREG(status.st_mode):
                known = regular.get(inode)
                if known is None or _rank(name, owners) < _rank(known[0], owners):
                    regular[inode] = name, path, status.st_size
            elif LIBRARY.search(name):
                contents.faults.append(f"{name} is not a regular file")
    for name, path, size in regular.values():
        item = Item(name, size, partial(open_file, path), path.resolve())
        _add(contents, item, partial(_beginning, path), counted=owners.package_of(name) is not None)
    contents.libraries.sort(key=lambda item: item.name)
    return contents


def _rank(name: str, owners: Owners) -> int:
    return ROLES.index(owners.role_of(name))


def content_kind(beginning: bytes) -> ContentKind:
    """What a file is by its first bytes: a shared library, GPU code, or anything else."""
    if beginning.startswith(GPU_MAGICS):
        return "gpu"
    if not beginning.startswith(ELF_MAGIC) or len(beginning) < MAGIC_BYTES:
        return ""
    kind, machine = struct.unpack_from("<HH", beginning, 16)
    return "gpu" if machine in GPU_MACHINES else "library" if kind == SHARED else ""


def _beginning(path: Path, most: int) -> bytes:
    with open_file(path) as part:
        return part.read(0, min(part.size, most))


def _entries(prefix: str, folder: Path, contents: Contents) -> Iterator[tuple[str, Path]]:
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError as error:
        contents.faults.append(f"{prefix or '.'} cannot be read: {error.strerror}")
        return
    for name in names:
        yield f"{prefix}{printable(name)}", folder / name


def _add(contents: Contents, item: Item, read: Callable[[int], bytes], *, counted: bool = True) -> None:
    """Sort a file in, by its name or else by its first bytes; the rest of an environment is not `counted`."""
    name, kind, text = item.name, _kind_by_name(item.name), TEXTS.search(item.name)
    if not kind and (counted or text or ".so" in name):
        try:
            beginning = read(MOST_TEXT if text else MAGIC_BYTES)
            kind = content_kind(beginning)
            if text and len(contents.texts) < MOST_TEXTS:
                contents.texts[name] = beginning.decode("utf-8", "replace")
        except Problem as fault:
            if counted:
                contents.faults.append(f"{name}: {fault.message}")
    if kind == "library":
        contents.libraries.append(replace(item, by_content=not LIBRARY.search(name)))
        return
    if kind == "gpu":
        contents.gpu_files.append(item)
    elif name.endswith(".whl"):
        contents.wheels.append(name)
    contents.places[PurePosixPath(name).name] = item.place
    contents.other_bytes += item.size if counted else 0


def _kind_by_name(name: str) -> ContentKind:
    return "library" if LIBRARY.search(name) else "gpu" if GPU_FILES.search(name) else ""


def _wheel(path: Path, archive: zipfile.ZipFile, size: int, owners: Owners) -> Contents:
    """The members of a wheel; nothing is written under a member's name, so no name can lead outside."""
    contents = Contents(path, "wheel", owners)
    members = archive.infolist()
    _refuse_bombs(members, size)
    contents.faults += _bad_names(members)
    for member in members:
        item = Item(printable(member.filename), member.file_size, partial(_open_member, archive, member))
        _add(contents, item, partial(_read_member, archive, member))
    contents.libraries.sort(key=lambda item: item.name)
    return contents


def _bad_names(members: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    """Members that an installer would refuse, or write outside of its folder, or twice."""
    for name, count in Counter(member.filename for member in members).items():
        if name.startswith("/") or ".." in name.split("/"):
            yield f"{printable(name)}: a member's name that leads out of the wheel"
        if count > 1:
            yield f"{printable(name)}: {count} members have this name"


class _Bounded(io.FileIO):
    """A file that is never read in large pieces: a table of contents that claims more is refused."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_TABLE:
            raise zipfile.BadZipFile(f"its table of contents claims {size} bytes")
        return super().read(size) or b""


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """An open wheel. Raises Damaged."""
    with open_file(path) as source, _Bounded(source.handle, closefd=False) as file:
        beginning = os.pread(file.fileno(), MAGIC_BYTES, 0)
        if beginning.isascii() and not beginning.startswith(b"PK") and b"\0" not in beginning:
            what = "it is text" if beginning.strip() else "it is empty"
            raise Invalid(f"{printable(str(path))} is not a wheel: {what}", hint=EXPECTED)
        try:
            archive = zipfile.ZipFile(file)
        except (*UNREADABLE, OSError) as error:
            hint = "a wheel's table of contents is at its end: was the download cut off?"
            message = f"{printable(str(path))} is not a readable wheel: {_reason(error)}"
            raise Damaged(message, hint=hint) from error
        with archive:
            yield archive


def _reason(error: Exception) -> str:
    """Why an archive could not be read, fit for a terminal."""
    return printable(str(error)) or type(error).__name__


@contextmanager
def _open_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, seen: Seen = unseen
) -> Iterator[FileSlice]:
    """A wheel's member as a source, unpacked to a file without a name."""
    with tempfile.TemporaryFile(prefix="torchsmith-") as unpacked:
        size = _unpack(archive, member, unpacked, seen)
        yield FileSlice(unpacked.fileno(), 0, size, seen)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """The first `most` bytes of a member, which is read to its end: its checksum is there."""
    beginning = b""
    for chunk in _unpacked(archive, member):
        beginning = beginning or chunk[:most]
    return beginning


def _refuse_bombs(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """A wheel of `size` bytes whose members together claim what such a wheel cannot hold."""
    if sum(member.compress_size for member in members) > size:
        raise Damaged("the wheel's members overlap: it claims more packed bytes than it has")
    small = sum(member.file_size for member in members if member.file_size <= HARMLESS)
    if small > HARMLESS + MOST_RATIO * size:
        raise Damaged(f"the wheel unpacks to more than {MOST_RATIO} times its size: a zip bomb")


def _refuse_bomb(member: zipfile.ZipInfo) -> None:
    if member.compress_type not in METHODS:
        raise Damaged(f"it is packed by method {member.compress_type}; wheels store or deflate")
    if member.file_size > MOST_UNPACKED:
        raise Damaged(f"it claims {member.file_size} bytes, more than any library has")
    if member.file_size > HARMLESS and member.file_size > MOST_RATIO * max(member.compress_size, 1):
        ratio = member.file_size // max(member.compress_size, 1)
        raise Damaged(f"it unpacks to {ratio} times its size: a zip bomb, not a library")


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: IO[bytes], seen: Seen = unseen) -> int:
    """Copy a member out, never more than it claims. Returns its size; raises Damaged, MissingRequirement."""
    done = 0
    for chunk in _unpacked(archive, member):
        done += len(chunk)
        if done > member.file_size:
            raise Damaged("it is longer than its entry says")
        try:
            target.write(chunk)
            target.flush()
            seen(len(chunk))
        except OSError as error:
            raise MissingRequirement(
                f"cannot unpack {printable(member.filename)}: {error.strerror}",
                hint=f"{tempfile.gettempdir()} lacks {member.file_size} bytes; TMPDIR names another place",
            ) from error
    return done


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """A member's bytes in chunks. Raises Damaged if the archive does not hold what it claims."""
    _refuse_bomb(member)
    try:
        with archive.open(member) as packed:
            while chunk := packed.read(CHUNK):
                yield chunk
    except (*UNREADABLE, OSError) as error:
        raise Damaged(f"it cannot be unpacked: {_reason(error)}") from error
