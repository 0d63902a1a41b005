"""The first torchsmith.toml of a new workspace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.catalog import builtin_catalog
from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Exists, NotKnown, did_you_mean
from torchsmith.matrix import Accepted, Cell, Variant, assess
from torchsmith.matrix.describe import describe
from torchsmith.matrix.text import matrix_text
from torchsmith.workspace.load import FILE, default_profiles, read_as

OLD = "plan"  # the name of a profile that still works and is no longer offered
TEXT = """\
# Which PyTorch builds this workspace ships. Schema for editors: torchsmith schema
format = 1

# A matrix by name; torchsmith list shows its cells. Others:
{profiles}
profile = "{profile}"

# The CUDA releases to package in build-cudatoolkit.
cudatoolkit = ["13.0"]

# "standalone": every recipe is complete in itself. "shared": short calls of a file they have in common.
layout = "standalone"

# Single cells to add, and selectors for cells to leave out.
include = []
exclude = []

# A matrix of your own: every Python with every CUDA, GPU and instruction set of a block.
# cuda = ["cpu"] builds without GPU code. Leave `profile` out to have these alone.
#
# [[matrix]]
# line = "2.10"
# python = ["3.12", "3.13"]
# cuda = ["12.9", "13.0"]
# sm = ["sm90", "sm120"]
# isa = ["avx2", "avx512"]
"""


def start_workspace(
    folder: Path, profile: str, *, cells: Sequence[str] = (), replace: bool = False
) -> tuple[Path, int]:
    """Write the file, for a profile or for single cells; returns it and the number of its variants."""
    known = default_profiles()
    if profile not in known:
        raise NotKnown(f"unknown profile {profile!r}", hint=did_you_mean(profile, known))
    file = folder / FILE
    if file.exists() and not replace:
        raise Exists(f"{file} is there already", hint="--force replaces it")
    if cells:
        about = "Which PyTorch builds this workspace ships. Schema for editors: torchsmith schema"
        text = matrix_text(_with_companions(cells), about)
    else:
        others = (f"#   {name}: {one.about}" for name, one in known.items() if name not in (profile, OLD))
        text = TEXT.format(profile=profile, profiles="\n".join(others))
    count = len(read_as(file, text).cells)
    write_atomic(file, text)
    return file, count


def _with_companions(names: Sequence[str]) -> list[Cell]:
    """Each cell in every package that can have it; a Problem where it cannot be built at all."""
    catalog = builtin_catalog()
    found: dict[str, Cell] = {}
    for name in names:
        variant = Variant.parse(name, catalog)
        describe(variant, catalog)
        for package in (one for one in catalog.packages.values() if one.default or one == variant.package):
            decision = assess(variant.of(package), catalog)
            if isinstance(decision, Accepted):
                cell = Cell(variant.of(package), decision.line.name)
                found[cell.name] = cell
    return list(found.values())
