"""The first line of every generated file: what it is, and the hash by which a hand edit is noticed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

FORMAT = 1
# Comment marks by file ending: what opens and what closes one.
MARKS = {".nix": ("# ", ""), ".toml": ("# ", ""), ".gitignore": ("# ", ""), ".md": ("<!-- ", " -->")}
LINE = re.compile(r"torchsmith: format=(\d+) ([^\n]*?) ?content=sha256:([0-9a-f]{64})(?: -->)?")


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line says."""

    format: int
    about: str
    content: str

    @property
    def facts(self) -> dict[str, str]:
        """`variant=... line=...` as a dictionary."""
        return dict(pair.split("=", 1) for pair in self.about.split() if "=" in pair)


def content_hash(body: str) -> str:
    """The hash of everything after the first line."""
    return hashlib.sha256(body.encode()).hexdigest()


def with_header(body: str, about: str, ending: str) -> str:
    """A file's text: its header, then the body."""
    before, after = MARKS[ending]
    return f"{before}torchsmith: format={FORMAT} {about} content=sha256:{content_hash(body)}{after}\n{body}"


Owner = Literal["ours", "edited", "foreign"]


def read_header(text: str) -> Header | None:
    """The header of a text, or None if it has none."""
    match = LINE.search(text.split("\n", 1)[0])
    return Header(int(match[1]), match[2], match[3]) if match else None


def owner_of(text: str) -> Owner:
    """Whose a file is: ours as we wrote it, ours with a hand edit, or not managed by torchsmith."""
    header = read_header(text)
    if header is None:
        return "foreign"
    _, _, body = text.partition("\n")
    return "ours" if content_hash(body) == header.content else "edited"
