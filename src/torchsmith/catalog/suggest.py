"""What a person may have meant by a word that names nothing of the catalog: shown, never taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchsmith.catalog.gpu_names import NOT_NVIDIA, mac_chip
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.names import find_cpu_by_name, holds, name_words
from torchsmith.core.problem import NotKnown
from torchsmith.core.text import listed

MOST = 4  # suggestions: a longer list does not help
NEAR = 0.75  # how much of two spellings must be alike


def gpu_products(catalog: Catalog) -> dict[str, str]:
    """GPUs of all makers by the names of their products, the newest first, each with its generation."""
    makers = (
        ((part, gpu.generation) for gpu in reversed(catalog.gpus.values()) for part in gpu.parts),
        ((name, gfx.generation) for gfx in reversed(catalog.gfx.values()) for name in gfx.products),
        ((name, "Intel") for gpu in catalog.intel.values() for name in gpu.products),
    )
    return {name: generation for products in makers for name, generation in products}


def suggestion(text: str, catalog: Catalog, more: Iterable[str] = ()) -> str:
    """A hint with the names of hardware, and of `more`, that are near; empty if there are none."""
    if mac_chip(f"Apple {text}", catalog):
        return f"for a Mac: 'Apple {text}'"
    if cpu := find_cpu_by_name(text, catalog):
        isas = ", ".join(cpu.isas) or "none of the instruction sets here"
        return f"{cpu.title} is a CPU that runs {isas}: torchsmith pick --cpu {cpu.name}"
    names = next(filter(None, _alike(text, catalog, more)), [])
    return f"did you mean {listed(names[:MOST], 'or')}?" if names else ""


def _alike(text: str, catalog: Catalog, more: Iterable[str]) -> Iterator[list[str]]:
    """Yield names: of a generation with these words, with them, beginning so, spelled nearly so."""
    words, products = name_words(text), gpu_products(catalog)
    if words:
        yield [name for name, generation in products.items() if holds(name_words(generation), words)]
        yield [name for name in products if holds(name_words(name), words)]
        called = (name for cpu in catalog.cpus.values() for name in cpu.also_called)
        yield [name for name in called if name.lower().startswith(text.lower())]
        yield _near("".join(words), [*products, *map(str, catalog.gpus), *catalog.gfx, *more])


def _near(plain: str, names: Iterable[str]) -> list[str]:
    """The names whose spellings are nearest, and of those that are equally near those with its digits."""
    from difflib import SequenceMatcher  # only if a name is wrong

    matcher = SequenceMatcher(b=plain)
    scores: dict[str, tuple[float, bool]] = {}
    for name in names:
        spelled = "".join(name_words(name))
        matcher.set_seq1(spelled)
        if matcher.quick_ratio() >= NEAR and matcher.ratio() >= NEAR:
            same = re.findall(r"\d", spelled) == re.findall(r"\d", plain)
            scores[name] = matcher.ratio(), same
    return [name for name, score in scores.items() if score == max(scores.values())]


def unknown_gpu(name: str, catalog: Catalog) -> NotKnown:
    """The error for a GPU that is not known."""
    words = name_words(name)
    several = [product for product in gpu_products(catalog) if holds(words, name_words(product))]
    hint = suggestion(name, catalog)
    if len(several) > 1:
        hint = f"it names {listed(several)}: write + between GPUs, or give an architecture such as sm89"
    elif not hint and re.search(rf"(?i)\b({NOT_NVIDIA})\b", name):
        hint = "this maker's GPU is not in the catalog; for the CPU alone, give none as the GPU"
    elif not hint or hint.startswith("did you mean"):
        give = "the name that nvidia-smi or lspci prints, or an architecture such as sm89 or gfx1100"
        hint = f"{hint} Or give {give}" if hint else f"give {give}"
    return NotKnown(f"unknown GPU {name!r}", hint=hint)
