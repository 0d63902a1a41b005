"""The members of a wheel as sources: in place where they are stored, unpacked within bounds otherwise."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from torchsmith.artifact.source import CHUNK, Damaged, Part
from torchsmith.edge.problem import Exit, Problem

MOST_UNPACKED = 16 << 30  # no library comes near this size
MOST_RATIO = 200  # deflate reaches 1032 on zeros; real libraries stay below 20
LOCAL_HEADER = 30
ENCRYPTED = 1
SMALL = 16 << 20  # below this size no ratio can hurt


def open_zip(path: Path) -> zipfile.ZipFile:
    """A wheel's table of contents, or a Problem that says what is wrong with it."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError) as error:
        raise Damaged(f"{path} is not a readable wheel: {error}") from error
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[Part]:
    """A wheel's member as a source: in place when stored, unpacked to a file without a name otherwise."""
    _refuse_bomb(member)
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED and archive.fp:
        yield _in_place(archive.fp.fileno(), member)
        return
    with tempfile.TemporaryFile(prefix="torchsmith-") as unpacked:
        size = _unpack(archive, member, unpacked)
        yield Part(unpacked.fileno(), 0, size)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """The first `most` bytes of a member."""
    try:
        with archive.open(member) as file:
            return file.read(most)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise Damaged(f"{member.filename} cannot be unpacked: {error}") from error


def _refuse_bomb(member: zipfile.ZipInfo) -> None:
    if member.file_size > MOST_UNPACKED:
        raise Damaged(f"{member.filename} claims {member.file_size} bytes, more than any library has")
    if member.file_size > SMALL and member.file_size > MOST_RATIO * max(member.compress_size, 1):
        ratio = member.file_size // max(member.compress_size, 1)
        raise Damaged(f"{member.filename} unpacks to {ratio} times its size: a zip bomb, not a library")


def _in_place(handle: int, member: zipfile.ZipInfo) -> Part:
    """Where a stored member's bytes lie in the wheel; its local header gives the exact place."""
    whole = Part(handle, 0, os.fstat(handle).st_size)
    header = whole.read(member.header_offset, LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04":
        raise Damaged(f"{member.filename} is not where the wheel's table says")
    name, extra = struct.unpack_from("<HH", header, 26)
    start = member.header_offset + LOCAL_HEADER + name + extra
    if start + member.file_size > whole.size:
        raise Damaged(f"{member.filename} reaches beyond the end of the wheel")
    return Part(handle, start, member.file_size)


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: IO[bytes]) -> int:
    """Copy a member out, never more than it claims; the size that came out."""
    done = 0
    try:
        with archive.open(member) as packed:
            while chunk := packed.read(CHUNK):
                done += len(chunk)
                if done > member.file_size:
                    raise Damaged(f"{member.filename} is longer than it claims")
                target.write(chunk)
        target.flush()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Damaged(f"{member.filename} cannot be unpacked: {error}") from error
    except OSError as error:
        raise Problem(
            f"cannot unpack {member.filename}: {error.strerror}",
            hint=f"it takes {member.file_size} bytes in {tempfile.gettempdir()}; TMPDIR names another place",
            exit=Exit.LACKING,
        ) from error
    return done
