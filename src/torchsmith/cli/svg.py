"""Drawings that verbs write in addition to their answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.cli.console import warn

if TYPE_CHECKING:
    from torchsmith.webpage.draw import Picture


def check_svg(path: Path | None) -> None:
    """Raise early if a drawing cannot be written to `path`."""
    from torchsmith.core.files import check_own

    if path is not None:
        check_own(path, "<svg")


def write_svg(picture: Picture, path: Path) -> None:
    """Write a picture to a file."""
    from torchsmith.core.files import write_atomic

    write_atomic(path, picture.file())
    warn(f"written: {path}")
