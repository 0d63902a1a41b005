"""The form of a recipe: its text with the words of its own GPU blanked, so that recipes for many GPUs are judged once.

Rules hold a recipe against the facts of its cell. Where two recipes differ in nothing but each naming its own GPU
rightly, and all else that rules look at is equal, they get the same judgement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torchsmith.catalog import Catalog, CudaToolkit, CudaVersion, Gpu, Sm
from torchsmith.matrix import Accepted, BadName, assess, read_name
from torchsmith.recipe.header import LINE

Key = tuple[object, ...]
GPU = re.compile(r"-cuda([\d_]+)-(sm\d+)-")
MOST = 4096  # judgements that are remembered at a time


@dataclass(frozen=True, slots=True)
class Form:
    """A text with its GPU blanked, and all else that its judgement depends on."""

    text: str
    key: Key


@dataclass(frozen=True)
class Forms:
    """Makes forms with the words of one catalog."""

    catalog: Catalog
    _known_words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _keys: dict[str, Key | None] = field(default_factory=dict)

    def of(self, name: str, text: str, line: str | None) -> Form | None:
        """The form of a recipe; None where it must be judged on its own."""
        if "import ./" in text or "import ../" in text or "torchsmith: ignore" in text:
            return None
        key = self._key(name)
        if key is None:
            return None
        first, _, rest = text.partition("\n")
        header = LINE.search(first)
        body = rest if header else text
        return Form(self.blank(name, body), (*key, line, re.sub(r"variant=\S+", "", header[2]) if header else None))

    def blank(self, name: str, text: str) -> str:
        """A text without the words of the GPU that a name names."""
        for word in self._words(name):
            text = text.replace(word, "\0")
        return text

    def _key(self, name: str) -> Key | None:
        if name not in self._keys:
            if len(self._keys) > MOST:
                self._keys.clear()
            self._keys[name] = self._made(name)
        return self._keys[name]

    def _made(self, name: str) -> Key | None:
        try:
            reading = read_name(name)
        except BadName:
            return None
        variant = reading.variant
        decision = assess(variant, self.catalog)
        usable = isinstance(decision, Accepted) and decision.usable
        if not reading.canonical or variant.flavor or not usable:
            return None
        gpu = self.catalog.gpus[variant.sm] if variant.sm else None
        return (variant.package, variant.python, variant.cuda, variant.isa, *_kind(gpu))

    def _words(self, name: str) -> tuple[str, ...]:
        """The words by which recipes name the GPU of a name, and no other."""
        named = GPU.search(name)
        if named is None:
            return ()
        if named[0] not in self._known_words:
            gpu = self.catalog.gpus.get(Sm.parse(named[2]))
            toolkit = self.catalog.cuda.get(CudaVersion.parse(named[1]))
            self._known_words[named[0]] = words_of(gpu, toolkit) if gpu and toolkit else ()
        return self._known_words[named[0]]


def _kind(gpu: Gpu | None) -> Key:
    """What rules ask of a GPU besides its name."""
    if gpu is None:
        return ()
    return (gpu.platforms, gpu.tegra, gpu.cpus, gpu.never_called)


def words_of(gpu: Gpu, toolkit: CudaToolkit) -> tuple[str, ...]:
    """How generated recipes name a GPU: its number, capability, title and generation, and the driver it needs."""
    number, driver = gpu.sm.number, max(gpu.min_driver, toolkit.min_driver)
    exact = (f'"{gpu.sm.capability}"', f"SM{number}", f"-sm{number}-", f"version {driver} or newer")
    return (*exact, gpu.title, gpu.generation)
