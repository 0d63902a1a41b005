"""From a GPU's name to its architecture, by the parts the catalog lists."""

from __future__ import annotations

import re
from functools import lru_cache

from torchsmith.catalog import Catalog, Gpu


def _words(name: str) -> tuple[str, ...]:
    """A name word by word, so that A10 is not found in A100 nor L4 in L40S."""
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))


def gpu_of_name(name: str, catalog: Catalog) -> Gpu | None:
    """The architecture of a GPU by its name; None where no part, or parts of two architectures, match.

    A part inside a longer one does not count: RTX PRO 6000 in RTX PRO 6000 Blackwell.
    """
    return _lookup(catalog)(name)


class _GpuLookup:
    """The catalog's parts in words, and the names already looked up."""

    def __init__(self, catalog: Catalog) -> None:
        self.parts = [(_words(part), gpu) for gpu in catalog.gpus.values() for part in gpu.parts]
        self.vgpus = [(_words(part), gpu) for gpu in catalog.gpus.values() for part in gpu.vgpus]
        self.seen: dict[str, Gpu | None] = {}

    def __call__(self, name: str) -> Gpu | None:
        if name not in self.seen:
            self.seen[name] = self._find_cut(name) if name.endswith("..") else self._find(_words(name))
        return self.seen[name]

    def _find(self, words: tuple[str, ...]) -> Gpu | None:
        found = [
            (range(at, at + len(part)), gpu)
            for part, gpu in self.parts
            for at in range(len(words) - len(part) + 1)
            if words[at : at + len(part)] == part
        ]
        # A virtual GPU has its profile behind its name: RTX6000-8Q, where RTX6000 alone may be three GPUs.
        found += [
            (range(at, at + len(part) + 1), gpu)
            for part, gpu in self.vgpus
            for at in range(len(words) - len(part))
            if words[at : at + len(part)] == part and re.fullmatch(r"\d+[a-z]*", words[at + len(part)])
        ]
        whole = {
            gpu.sm: gpu
            for spot, gpu in found
            if not any(len(other) > len(spot) and set(spot) <= set(other) for other, _ in found)
        }
        if not whole:  # rtx4090, as Slurm and people write it
            whole = {gpu.sm: gpu for part, gpu in self.parts if "".join(part) == "".join(words)}
        return next(iter(whole.values())) if len(whole) == 1 else None

    def _find_cut(self, name: str) -> Gpu | None:
        """A name that ends in dots: its whole words, unless the cut one may begin a part of another kind."""
        start, cut = re.fullmatch(r"(.*?)([A-Za-z0-9]*)\.{2,}", name, re.DOTALL).groups()  # type: ignore[union-attr]
        words = _words(start)
        gpu = self._find(words)
        for part, other in self.parts if gpu else ():
            begun = [n for n in range(1, len(part)) if words[-n:] == part[:n]]
            if other != gpu and any(part[n].startswith(cut.lower()) for n in begun):
                return None
        return gpu


@lru_cache(maxsize=4)
def _lookup(catalog: Catalog) -> _GpuLookup:
    return _GpuLookup(catalog)
