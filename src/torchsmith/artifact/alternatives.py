"""Libraries that stand for each other: a wheel has one for each CUDA release, and one of them is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from torchsmith.artifact.inspect import Inspection
from torchsmith.matrix.variant import Variant


def loaded_by(variant: Variant | None) -> Callable[[str], bool]:
    """Whether a library is loaded by a variant, or another one stands for it; without a variant all are."""
    beginning = variant.package.alternatives if variant else ""
    cuda = variant.cuda if variant else None
    own = f"{beginning}{f'cuda{cuda.major}{cuda.minor}' if cuda else 'cpu'}."

    def loaded(name: str) -> bool:
        file = PurePosixPath(name).name
        return not beginning or not file.startswith(beginning) or file.startswith(own)

    return loaded


def alternatives_in(seen: Inspection) -> frozenset[str]:
    """The libraries of which only one is loaded; none where there is only one."""
    beginnings = tuple(package.alternatives for package in seen.packages if package.alternatives)
    found = [one.name for one in seen.libraries if PurePosixPath(one.name).name.startswith(beginnings)]
    return frozenset(found if beginnings and len(found) > 1 else ())
