"""The browser that tests and benchmarks drive: Debian's Chromium without its windows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAM = "chromium-headless-shell"  # also the name of its package: tools/system-parts.sh installs it


class NoBrowser(Exception):
    """Says what is missing."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser. Raises NoBrowser if it or Playwright is not installed.

    A sandbox of its own is not to be had in a container, nor as root.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NoBrowser("Playwright is not installed") from error
    program = shutil.which(PROGRAM)
    if program is None:
        raise NoBrowser(f"{PROGRAM} is not installed")
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
