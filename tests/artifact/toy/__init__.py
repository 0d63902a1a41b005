"""An environment with a toy in the place of torch, for examples that run a build."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TORCH = Path(__file__).with_name("torch")
TOY = TORCH / "__init__.py"


def make_environment(folder: Path) -> Path:
    """An environment like one that pip installed torch into."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(TORCH, folder / f"lib/{version}/site-packages/torch")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(sys.executable)
    return folder
