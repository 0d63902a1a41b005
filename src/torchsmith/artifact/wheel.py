"""The members of a wheel as sources: in place where they are stored, unpacked within bounds otherwise."""

from __future__ import annotations

import io
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from torchsmith.artifact.source import CHUNK, Damaged, FileSlice, open_regular, printable
from torchsmith.edge.problem import Lacking

MOST_UNPACKED = 16 << 30  # no library comes near this size
MOST_RATIO = 200  # deflate reaches 1032 on zeros; real libraries stay below 20
LOCAL_HEADER = 30
ENCRYPTED = 1
SMALL = 16 << 20  # below this size no ratio can hurt
MOST_TABLE = 16 << 20  # the table of torch 2.10's 12 thousand files takes 1.4 MB
# The other methods unpack without a bound on memory, and no wheel uses them.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What reading a damaged archive raises; OSError apart, because it may be about this machine.
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError, RuntimeError),
)


class _Bounded(io.FileIO):
    """A file that is never read in large pieces: a table of contents that claims more is refused."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_TABLE:
            raise zipfile.BadZipFile(f"its table of contents claims {size} bytes")
        return super().read(size) or b""


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel's table of contents, or a Problem that says what is wrong with it."""
    with _Bounded(open_regular(path)) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (*UNREADABLE, OSError) as error:
            raise Damaged(f"{printable(str(path))} is not a readable wheel: {reason(error)}") from error
        with archive:
            yield archive


def reason(error: Exception) -> str:
    """Why an archive could not be read, fit for a terminal."""
    return printable(str(error)) or type(error).__name__


@contextmanager
def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[FileSlice]:
    """A wheel's member as a source: in place when stored, unpacked to a file without a name otherwise."""
    _refuse_bomb(member)
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED and archive.fp:
        yield _in_place(archive.fp.fileno(), member)
        return
    with tempfile.TemporaryFile(prefix="torchsmith-") as unpacked:
        size = _unpack(archive, member, unpacked)
        yield FileSlice(unpacked.fileno(), 0, size)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """The first `most` bytes of a member."""
    return next(_unpacked(archive, member, most), b"")


def refuse_bombs(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """A wheel of `size` bytes whose members together claim what such a wheel cannot hold."""
    if sum(member.compress_size for member in members) > size:
        raise Damaged("the wheel's members overlap: it claims more packed bytes than it has")
    if sum(member.file_size for member in members if member.file_size <= SMALL) > SMALL + MOST_RATIO * size:
        raise Damaged(f"the wheel unpacks to more than {MOST_RATIO} times its size: a zip bomb")


def _refuse_bomb(member: zipfile.ZipInfo) -> None:
    if member.compress_type not in METHODS:
        raise Damaged(f"it is packed by method {member.compress_type}; wheels store or deflate")
    if member.file_size > MOST_UNPACKED:
        raise Damaged(f"it claims {member.file_size} bytes, more than any library has")
    if member.file_size > SMALL and member.file_size > MOST_RATIO * max(member.compress_size, 1):
        ratio = member.file_size // max(member.compress_size, 1)
        raise Damaged(f"it unpacks to {ratio} times its size: a zip bomb, not a library")


def _in_place(handle: int, member: zipfile.ZipInfo) -> FileSlice:
    """Where a stored member's bytes lie in the wheel; its local header gives the exact place."""
    whole = FileSlice(handle, 0, os.fstat(handle).st_size)
    header = whole.read(member.header_offset, LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04":
        raise Damaged("it is not where the wheel's table says")
    name, extra = struct.unpack_from("<HH", header, 26)
    start = member.header_offset + LOCAL_HEADER + name + extra
    if start + member.file_size > whole.size:
        raise Damaged("it reaches beyond the end of the wheel")
    return FileSlice(handle, start, member.file_size)


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: IO[bytes]) -> int:
    """Copy a member out, never more than it claims; the size that came out."""
    done = 0
    for chunk in _unpacked(archive, member, CHUNK):
        done += len(chunk)
        if done > member.file_size:
            raise Damaged("it is longer than it claims")
        try:
            target.write(chunk)
            target.flush()
        except OSError as error:
            raise Lacking(
                f"cannot unpack {printable(member.filename)}: {error.strerror}",
                hint=f"{tempfile.gettempdir()} lacks {member.file_size} bytes; TMPDIR names another place",
            ) from error
    return done


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, piece: int) -> Iterator[bytes]:
    """A member's bytes, piece by piece; Damaged where the archive does not hold what it says."""
    _refuse_bomb(member)
    try:
        with archive.open(member) as packed:
            while chunk := packed.read(piece):
                yield chunk
    except (*UNREADABLE, OSError) as error:
        raise Damaged(f"it cannot be unpacked: {reason(error)}") from error
