"""Facts about libraries and instructions, out of data/*.toml."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from torchsmith.core.toml import read_cached

DATA = Path(__file__).parent / "data"
T = TypeVar("T", bound="Table")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of such a file."""


def read_table(file: str, kind: type[T]) -> T:
    """A whole file."""
    return msgspec.convert(read_cached(DATA / file), kind)
