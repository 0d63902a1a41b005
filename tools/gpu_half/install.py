"""A copy of an installed torch with our GPU half in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tools.gpu_half.work import Work

REPLACED = ("libc10_cuda.so", "libtorch_cuda.so")


def install(work: Work, site: Path, folder: Path) -> None:
    """Make a site-packages folder: links to SITE, but for torch, whose GPU half is that of WORK/build/lib."""
    folder.mkdir(parents=True)
    for entry in site.iterdir():
        if entry.name != "torch":
            (folder / entry.name).symlink_to(entry.resolve())
    shutil.copytree(site / "torch", folder / "torch", copy_function=_hard_link)
    for name in REPLACED:
        place = folder / "torch/lib" / name
        place.unlink()
        shutil.copy2(work.build / "lib" / name, place)


def _hard_link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
