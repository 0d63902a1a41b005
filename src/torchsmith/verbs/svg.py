"""Drawings that verbs write beside their answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.cli.console import warn

if TYPE_CHECKING:
    from torchsmith.page.draw import Picture


def check_svg(path: Path | None) -> None:
    """A Problem, before the answer, where a drawing of it could not be written."""
    from torchsmith.core.files import check_own

    if path is not None:
        check_own(path, "<svg")


def write_svg(picture: Picture, path: Path) -> None:
    """A picture as a file."""
    from torchsmith.core.files import write_atomic

    write_atomic(path, picture.file())
    warn(f"written: {path}")
