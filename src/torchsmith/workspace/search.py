"""The Nix files of a checkout, wherever they are, and which of them concern torch or CUDA by their words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.workspace.git import seen_files

# Settings that say what torch and CUDA packages are built for.
SETTINGS = (
    "cudaSupport",
    "cudaCapabilities",
    "cudaForwardCompat",
    "gpuTargets",
    "rocmSupport",
    "TORCH_CUDA_ARCH_LIST",
)
LIBRARIES = ("magma", "nccl", "cudnn")
# Package sets and settings, rightly spelled or not, and packages with CUDA in their name.
CUDA = r"cuda[A-Z]\w*|enableCuda\w*|cudatoolkit\w*|(?:pytorch|tensorflow)WithCuda|rocmPackages\w*"
# Folders that hold no source; recipes below .flox are found as Flox finds them.
SKIPPED = (
    "node_modules", "site-packages", "result",
    ".git", ".hg", ".jj", ".direnv", ".venv", ".tox", ".cache", ".flox",
)  # fmt: skip


def nix_files(root: Path, templates: Iterable[str] = ()) -> list[Path]:
    """Every .nix file at or below a folder that git does not ignore.
    Links are left out, and so are a workspace's templates: they are not valid Nix, and are checked in the
    recipes that they make."""
    holes = {Path(template).resolve() for template in templates}
    return [path for path in _nix_files(root) if not holes or path.resolve() not in holes]


def _nix_files(root: Path) -> list[Path]:
    seen = seen_files(root, ".")
    if seen is not None:
        tracked = [root / name for name in sorted(seen) if name.endswith(".nix")]
        return [path for path in tracked if path.is_file() and not path.is_symlink()]
    paths: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        paths += (Path(folder, name) for name in sorted(files) if name.endswith(".nix"))
    return [path for path in paths if not path.is_symlink()]


@lru_cache(maxsize=4)
def concerned_names(catalog: Catalog) -> frozenset[str]:
    """What code calls torch, the packages of a catalog and what they are built for."""
    packages = catalog.packages.values()
    attrs = {package.attr.rpartition(".")[2] for package in packages} | {package.name for package in packages}
    return frozenset([*SETTINGS, *LIBRARIES, *attrs, *(f"{attr}-bin" for attr in attrs)])


@lru_cache(maxsize=4)
def mentioned(catalog: Catalog) -> re.Pattern[str]:
    """A cheap look at a text: without a match it does not concern torch or CUDA."""
    names = "|".join(sorted(map(re.escape, concerned_names(catalog)), key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{names}|{CUDA})(?![\w-])")
