"""Facts about libraries and instructions, out of data/*.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

DATA = Path(__file__).parent / "data"
T = TypeVar("T", bound="Table")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of such a file."""


def read_table(file: str, kind: type[T]) -> T:
    """A whole file."""
    return msgspec.convert(tomllib.loads((DATA / file).read_text()), kind)
