"""Bytes at a position: a file or a part of one, read in small bounded pieces."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchsmith.core.files import open_regular
from torchsmith.core.problem import CannotRead, Exit, Problem
from torchsmith.core.text import printable

CHUNK = 1 << 20
SEARCHED_BYTES = 4 << 20  # at a time
MOST_RATIO = 200  # deflate reaches 1032 on zeros; real libraries stay below 20
STORE = "/nix/store"
EXPECTED = "name a result link, a store path, a wheel for Linux or macOS, a site-packages folder or a .so"
MOST_LINKS = 40  # on the way to a file, as Linux counts them


class Damaged(Problem):
    """A file whose contents do not match its headers."""

    exit = Exit.CHECK_FAILED


def unseen(size: int) -> None:
    """No progress to count."""


Seen = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of an open file from `start`; reads never leave them."""

    handle: int
    start: int
    size: int
    seen: Seen = unseen  # called with the bytes of each read

    def part(self, at: int, size: int) -> FileSlice:
        """`size` bytes from a place on."""
        return FileSlice(self.handle, self.start + at, size, self.seen)

    def read(self, at: int, length: int) -> bytes:
        """Exactly these bytes. Raises Damaged if they are outside or the file ends before them."""
        if at < 0 or length < 0 or at + length > self.size:
            raise Damaged(f"{length} bytes at {at:#x} are outside its {self.size} bytes")
        try:
            data = os.pread(self.handle, length, self.start + at)
            while len(data) < length:  # one call gives 2 GiB at most
                more = os.pread(self.handle, length - len(data), self.start + at + len(data))
                if not more:
                    raise Damaged(f"the file ends at {at + len(data):#x}, while it was being read")
                data += more
            self.seen(length)
            return data
        except OSError as error:
            raise Damaged(f"its bytes at {at:#x} cannot be read: {error.strerror}") from error

    def search(self, *texts: bytes) -> Iterator[tuple[int, bytes]]:
        """Every place of some texts, and which is there."""
        longest = max(map(len, texts))
        for start in range(0, self.size, SEARCHED_BYTES):
            block = self.read(start, min(SEARCHED_BYTES + longest - 1, self.size - start))
            places = ((at, text) for text in texts for at in _places(block, text))
            yield from sorted((start + at, text) for at, text in places if at < SEARCHED_BYTES)


def _places(block: bytes, text: bytes) -> Iterator[int]:
    """Where a text is; a search for each of a few is many times as fast as a pattern of all."""
    at = block.find(text)
    while at >= 0:
        yield at
        at = block.find(text, at + len(text))


@contextmanager
def open_file(path: Path, seen: Seen = unseen) -> Iterator[FileSlice]:
    """A regular file as a source; a pipe, a device or a folder is refused without reading it. Raises
    CannotRead."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise CannotRead(f"cannot read {printable(str(path))}: {error.strerror}") from error
    with file:
        yield FileSlice(file.fileno(), 0, os.fstat(file.fileno()).st_size, seen)


def above_store(path: Path) -> Path | None:
    """The folder that a Nix store with the machine's paths is in, such as ~/s for ~/s/nix/store/NAME."""
    match = re.match(rf"(/.+?){STORE}/", f"{path.resolve()}/")
    return Path(match[1]) if match else None


def resolve_below(path: Path, folder: Path) -> Path:
    """A path with its links followed; what names the machine's store leads into the one below `folder`."""
    place = folder if path.is_relative_to(STORE) else Path("/")
    rest, links = list(reversed(path.absolute().parts[1:])), 0
    while rest:
        step = place / rest.pop()
        if not step.is_symlink() or links == MOST_LINKS:
            place = Path(os.path.normpath(step))
            continue
        links += 1
        target = step.readlink()
        if target.is_absolute():
            place = folder if target.is_relative_to(STORE) else Path("/")
        rest += reversed(target.parts[target.is_absolute() :])
    return place
