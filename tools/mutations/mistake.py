"""A mistake: a recipe's text with one thing wrong, and which rules would name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import builtin_catalog
from torchsmith.matrix import Variant


@dataclass(frozen=True, slots=True)
class Right:
    """A recipe without a mistake, as a person might have written it, without a header; `folder` is where its
    neighbours are."""

    name: str
    text: str
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class Mistake:
    """One change of one recipe. `rules` are those that name it; empty: whatever speaks of its line or its
    word."""

    kind: str
    what: str
    of: Right
    name: str  # of the file afterwards
    text: str
    rules: frozenset[str] = frozenset()
    lines: tuple[int, int] = (0, 0)  # that were changed, in the new text
    words: tuple[str, ...] = ()  # that went away or came in


def config_decides(text: str, variant: Variant) -> bool:
    """Whether the import's config alone tells torch and companions the cell's GPU. nixpkgs' torch takes its
    architectures and its passthru from there when it is told none: without gpuTargets and without
    passthru.cudaCapabilities the same is built."""
    gpu = builtin_catalog().gpus.get(variant.sm) if variant.sm else None
    return gpu is not None and not gpu.torch_drops and f'cudaCapabilities = [ "{gpu.sm.capability}" ]' in text
