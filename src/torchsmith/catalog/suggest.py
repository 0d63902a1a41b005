"""What a person may have meant by a word that names nothing of the catalog: shown, never taken."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchsmith.catalog.gpu_names import BETWEEN, NOT_NVIDIA, mac_chip, product_of_name
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
    return _not_gpu(text, catalog) or _did_you_mean(text, catalog, more)


def _not_gpu(text: str, catalog: Catalog) -> str:
    """A hint for the name of a Mac's chip or of a CPU; empty for others."""
    if mac_chip(f"Apple {text}", catalog):
        return f"for a Mac: 'Apple {text}'"
    if cpu := find_cpu_by_name(text, catalog):
        isas = ", ".join(cpu.isas) or "none of the instruction sets here"
        return f"{cpu.title} is a CPU that runs {isas}: torchsmith pick --cpu {cpu.name}"
    return ""


def _did_you_mean(text: str, catalog: Catalog, more: Iterable[str] = ()) -> str:
    """The names with these words in them or in their generation; else those that are spelled nearly so."""
    words, products = name_words(text), gpu_products(catalog)
    if not words:
        return ""
    named = products | {name: "" for cpu in catalog.cpus.values() for name in cpu.also_called}
    names = [name for name, generation in named.items() if holds(name_words(f"{generation} {name}"), words)]
    names = names or _near("".join(words), [*products, *map(str, catalog.gpus), *catalog.gfx, *more])
    return f"did you mean {listed(names[:MOST], 'or')}?" if names else ""


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
    """The error for a GPU that is not known; of several, the first such."""
    parts = [part.strip() for part in BETWEEN.split(name)]
    name = next((part for part in parts if part and product_of_name(part, catalog) is None), name)
    words = name_words(name)
    several = [product for product in gpu_products(catalog) if holds(words, name_words(product))]
    near = _did_you_mean(name, catalog)
    give = "the name that nvidia-smi or lspci prints, or an architecture such as sm89 or gfx1100"
    if len(several) > 1:
        hint = f"it names {listed(several)}: write + between GPUs, or give an architecture such as sm89"
    elif other := _not_gpu(name, catalog):
        hint = other
    elif not near and re.search(rf"(?i)\b({NOT_NVIDIA})\b", name):
        hint = "this maker's GPU is not in the catalog; for the CPU alone, give none as the GPU"
    else:
        hint = f"{near} Or give {give}" if near else f"give {give}"
    return NotKnown(f"unknown GPU {name!r}", hint=hint)
