"""Files: read, written whole or not at all, never outside their root, with messages for people; and locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from torchsmith.core.problem import (
    Busy,
    CannotRead,
    CannotWrite,
    Exists,
    Invalid,
    MissingRequirement,
    Problem,
    TooLarge,
    Where,
)

HEAD_BYTES = 4096  # a file of ours has its mark within these
MAX_BYTES = 16 << 20  # of a file that is read
MAX_LOG_BYTES = 1 << 30


def read_text(path: Path, *, lenient: bool = False) -> str:
    """The text of a file, or a Problem if it cannot be read; `lenient` takes any bytes, and a long log."""
    try:
        data = read_bytes(path, limit=MAX_LOG_BYTES if lenient else MAX_BYTES)
        return data.decode(errors="replace" if lenient else "strict")
    except UnicodeDecodeError as error:
        raise Invalid(f"not UTF-8 text (byte {error.start})", where=Where(str(path))) from error
    except OSError as error:
        raise unreadable(path, error) from error


def text_or_none(path: Path) -> str | None:
    """The text of a file; None if it cannot be read, or is not text."""
    try:
        return read_text(path)
    except Problem:
        return None


def unreadable(path: str | Path, error: OSError, hint: str = "") -> Problem:
    """The problem that a file cannot be read."""
    kind = TooLarge if error.errno == errno.EFBIG else CannotRead
    return kind(f"cannot read {path}: {error.strerror}", hint=hint)


def read_bytes(path: str | Path, *, limit: int = MAX_BYTES, links: bool = True) -> bytes:
    """The content of a regular file. Raises OSError: with EFBIG for more than `limit` bytes, and without
    `links` with ELOOP for a link."""
    with open_regular(path, links=links) as file:
        data = file.read(limit + 1) if os.fstat(file.fileno()).st_size <= limit else None
    if data is None or len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", str(path))
    return data


def open_regular(path: str | Path, *, links: bool = True) -> BinaryIO:
    """A regular file, open for reading. A pipe or a device is not waited for. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def write_atomic(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old text or the new one, also after a kill.

    It has the mode of the file that it replaces, else what the user's umask leaves. A kill may leave a hidden
    draft beside it.
    """
    draft = f"{path.parent}/.{path.name}.{threading.get_native_id()}.new"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_new(draft, text, mode_of(path))
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error


def write_new(path: str, text: str, mode: int | None, *, replaces: bool = True) -> None:
    """Write a new file with a mode, by default what the user's umask leaves of 0o666. What was at its path
    before is not followed or written to. Raises OSError; without `replaces`, FileExistsError."""
    if replaces:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode or 0o666)
    try:
        rest = text.encode(errors="backslashreplace")  # of a file name that is not text
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def mode_of(path: str | Path) -> int | None:
    """The mode of a regular file; None if there is none."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(state.st_mode) if stat.S_ISREG(state.st_mode) else None


def _unwritable(path: Path, error: OSError) -> CannotWrite:
    """The system's message (`File exists`) does not name a file that is in the place of a folder."""
    file = next((parent for parent in path.parents if parent.is_file()), None)
    return CannotWrite(f"cannot write {path}: {f'{file} is not a folder' if file else error.strerror}")


def check_own(path: Path, mark: str) -> None:
    """Raise early if `path` cannot be written, or is a file without the mark near its beginning that every
    file of torchsmith has."""
    try:
        with open_regular(path) as old:
            ours = mark.encode() in old.read(HEAD_BYTES)
    except FileNotFoundError:
        ours = True
    except OSError as error:
        raise _unwritable(path, error) from error
    if not ours:
        hint = "name another file, or move it away"
        raise Exists(f"{path} exists and was not written by torchsmith", hint=hint)
    check_writable(path)


def check_writable(path: Path) -> None:
    """Raise early if `path` cannot be written."""
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    if existing.is_file() or not os.access(existing, os.W_OK):
        raise _unwritable(path.absolute(), PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def inside(root: Path, relative: str) -> Path:
    """`relative` below `root`, links resolved. Raises Invalid if it leads outside."""
    target = (root / relative).resolve()
    if not target.is_relative_to(root.resolve()):
        raise Invalid(f"path leads outside the workspace: {relative}")
    return target


def cache_dir() -> Path:
    """Where downloads and results that can be made again are kept."""
    return user_folder("TORCHSMITH_CACHE", "XDG_CACHE_HOME", ".cache")


def user_folder(variable: str, xdg: str, usual: str) -> Path:
    """The folder that `variable` names, else torchsmith's below that of `xdg` or `usual` in the user's home;
    paths that are not absolute do not count for those. Raises MissingRequirement without a home."""
    if named := os.environ.get(variable):
        return Path(named).absolute()
    base = os.environ.get(xdg, "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), usual)
    if not os.path.isabs(base):
        raise MissingRequirement("there is no home folder", hint=f"set {variable} to a folder of yours")
    return Path(base) / "torchsmith"


@contextmanager
def exclusive(path: Path, *, what: str, wait_seconds: float = 0.0, hint: str = "") -> Iterator[None]:
    """Hold the lock file `path`; a Problem names `what` when another process has it."""
    with _opened(path) as file:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = file.read().strip() or "unknown"
                    raise Busy(
                        f"{what} is in use by another torchsmith (process {holder})",
                        hint=hint or "wait for it to end, then run the command again",
                    ) from None
                time.sleep(0.05)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _opened(path: Path) -> TextIO:
    """The lock file, made if there is none. Raises CannotWrite, also for a link: that may lead anywhere."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.is_symlink() or path.is_symlink():
            raise CannotWrite(f"{path} is a link, which torchsmith did not make", hint="remove it")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            os.close(handle)
            raise CannotWrite(f"{path} is not a file of its own", hint="remove it")
        return open(handle, "r+")
    except OSError as error:
        hint = "make the folder writable for you (the cache: set TORCHSMITH_CACHE to another one)"
        raise CannotWrite(f"cannot write {path}: {error.strerror}", hint=hint) from error
