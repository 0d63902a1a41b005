"""From what drivers, schedulers, lspci, clouds and people call a GPU to its entry in the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from torchsmith.catalog.axes import BadValue, Sm
from torchsmith.catalog.facts import Gfx, Gpu, Instance, IntelGpu, RetiredGpu
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.names import holds, name_words, product_pattern
from torchsmith.core.toml import read_cached

KnownGpu = Gpu | RetiredGpu | Gfx | IntelGpu
P = TypeVar("P", bound=KnownGpu)
C = TypeVar("C", Gpu, RetiredGpu, Gfx)
N = TypeVar("N", Gpu, RetiredGpu)
WORDS = read_cached(Path(__file__).with_name("gpu_words.toml"))
FORMS = frozenset(name_words(WORDS["forms"]))
BESIDE = FORMS | {*name_words(WORDS["beside"])}
SIZES, NVIDIA, NOT_NVIDIA = (WORDS[name] for name in ("sizes", "nvidia", "not_nvidia"))
MAKERS = re.compile(WORDS["makers"])
BETWEEN = re.compile(r"[;+,/&]|\band\b", re.IGNORECASE)  # the names of several
GFX = re.compile(r"\bgfx\d+[0-9a-f]*\b")


def gpu_by_name(name: str, catalog: Catalog) -> KnownGpu | None:
    """The architecture that a person names: by itself, by a product, or by a cloud's machine type."""
    try:
        sm = Sm.parse(name.strip().lower())
    except BadValue:
        instance = instance_of(name, catalog)
        return product_of_name(instance.gpu if instance else name, catalog)
    return catalog.gpus.get(sm) or catalog.retired.get(sm)


def begins_like_gpu(word: str) -> bool:
    """Whether a word begins with a brand of GPUs, so that it is one that is misspelt or not known."""
    return re.match(rf"(?i)({NVIDIA}|({NOT_NVIDIA})\b)", word) is not None


def mac_chip(gpu: str, catalog: Catalog) -> str:
    """The chip of a Mac that is given for a GPU; an M4 without another word may be a Tesla M4 too."""
    chip = gpu if gpu.lower().startswith("apple ") else f"Apple {gpu}"
    macs = [product for cpu in catalog.cpus.values() if cpu.mac for product in cpu.products]
    known = " " in gpu and any(re.fullmatch(product, chip, re.IGNORECASE) for product in macs)
    return chip if known else ""


def product_of_name(name: str, catalog: Catalog) -> KnownGpu | None:
    """The architecture of a GPU of any maker by its name; None if nothing, or two of them, match."""
    if re.match(r"(?i)apple\b", name):
        return None  # an Apple M4 is not a Tesla M4
    known = gpu_of_name(name, catalog) or retired_of_name(name, catalog) or gfx_of_name(name, catalog)
    return known or _longest(name, catalog.intel.values())


@lru_cache(maxsize=4096)
def gpu_of_name(name: str, catalog: Catalog) -> Gpu | None:
    """The architecture of an NVIDIA GPU by its name; None if no part, or parts of two, match.

    A part inside a longer one does not count: RTX PRO 6000 in RTX PRO 6000 Blackwell. Of a name that ends in
    dots the whole words count, unless the cut one may begin a part of another kind.
    """
    if spelled := _spelled(name, catalog.gpus.values()):
        return spelled
    cut = re.fullmatch(r"(.*?)([A-Za-z0-9]*)\.{2,}", name, re.DOTALL) if name.endswith("..") else None
    if cut is None:
        return _gpu_of_words(name_words(name), catalog)
    words = name_words(cut[1])
    gpu = _gpu_of_words(words, catalog)
    for part, other in _parts(catalog) if gpu else ():
        begun = [n for n in range(1, len(part)) if words[-n:] == part[:n]]
        if other != gpu and any(part[n].startswith(cut[2].lower()) for n in begun):
            return None
    return gpu


def _all_beside(rest: str) -> bool:
    """Whether what remains of a name are words that may be beside a product's."""
    return BESIDE.issuperset(name_words(re.sub(SIZES, " ", rest)))


@lru_cache(maxsize=4)
def _parts(catalog: Catalog) -> list[tuple[tuple[str, ...], Gpu]]:
    return [(name_words(part), gpu) for gpu in catalog.gpus.values() for part in gpu.parts]


def _gpu_of_words(words: tuple[str, ...], catalog: Catalog) -> Gpu | None:
    matches = [
        (range(at, at + len(part)), gpu)
        for part, gpu in _parts(catalog)
        for at in range(len(words) - len(part) + 1)
        if words[at : at + len(part)] == part
    ]
    # A virtual GPU has its profile behind its name: RTX6000-8Q; RTX6000 alone may be three GPUs.
    matches += [
        (range(at, at + len(part) + 1), gpu)
        for gpu in catalog.gpus.values()
        for part in map(name_words, gpu.vgpus)
        for at in range(len(words) - len(part))
        if words[at : at + len(part)] == part and re.fullmatch(r"\d+[a-z]*", words[at + len(part)])
    ]
    gpus = {
        gpu.sm: gpu
        for spot, gpu in matches
        if _all_beside(" ".join(word for at, word in enumerate(words) if at not in spot))
        and not any(len(other) > len(spot) and set(spot) <= set(other) for other, _ in matches)
    }
    if not gpus:  # rtx4090, as Slurm and people write it
        gpus = {gpu.sm: gpu for part, gpu in _parts(catalog) if "".join(part) == "".join(words)}
    return next(iter(gpus.values())) if len(gpus) == 1 else None


def _spelled(name: str, gpus: Iterable[N]) -> N | None:
    if name.endswith(".."):
        return None
    plain = "".join(word for word in name_words(re.sub(SIZES, " ", name)) if word not in FORMS)
    forms = {"".join(name_words(name)), plain, MAKERS.sub("", plain)}
    patterns = ((gpu, pattern) for gpu in gpus for pattern in gpu.spelled)
    return next((gpu for gpu, pattern in patterns for form in forms if re.fullmatch(pattern, form)), None)


@lru_cache(maxsize=4096)
def retired_of_name(name: str, catalog: Catalog) -> RetiredGpu | None:
    """The retired architecture of a GPU by its name; the longest match counts."""
    match = _longest(name, catalog.retired.values())
    return match or _spelled(name, catalog.retired.values())


@lru_cache(maxsize=4096)
def gfx_of_name(name: str, catalog: Catalog) -> Gfx | None:
    """AMD's target of a GPU by the target itself, its product's name or its chip's."""
    stated = GFX.search(name)
    if stated:
        return catalog.gfx.get(stated[0])
    if re.search(r"(?i)\bnvidia\b|geforce|quadro|tesla|\b[gr]tx\b", name):
        return None
    bare = re.match(r"(?i)\d{4} ?(?:XTX|XT|GRE)\b", name)
    product = _longest(f"RX {name}" if bare else name, catalog.gfx.values())
    return product or _of_chip(name.removeprefix("AMD "), catalog.gfx.values())


def _longest(name: str, gpus: Iterable[P]) -> P | None:
    first = name.partition("/")[0].replace("_", " ")  # of products that lspci has for a chip
    plain = re.sub(r"(?i)\b(GTX|RTX|GT|GeForce|Tesla|Quadro|RX)-", r"\1 ", first)
    text = " ".join(re.findall(r"[\w.+-]+", plain))
    matches = [
        (len(match[0]), gpu)
        for gpu in gpus
        for part in gpu.parts
        if (match := product_pattern(part).search(text))
        and _all_beside(f"{text[: match.start()]} {text[match.end() :]}")
    ]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def product_of_chip(chip: str, catalog: Catalog) -> Gpu | RetiredGpu | None:
    """The architecture of NVIDIA's chip as lspci names it: GA102."""
    return _of_chip(chip, catalog.gpus.values()) or _of_chip(chip, catalog.retired.values())


def _of_chip(chip: str, gpus: Iterable[C]) -> C | None:
    patterns = ((gpu, pattern) for gpu in gpus for pattern in gpu.chips)
    return next((gpu for gpu, pattern in patterns if re.fullmatch(pattern, chip, re.IGNORECASE)), None)


@lru_cache(maxsize=4096)
def instance_of(word: str, catalog: Catalog) -> Instance | None:
    """A kind of machine by its name: p4d.24xlarge, a2-highgpu-1g, Standard_NC24ads_A100_v4."""
    name = word.strip().removeprefix("ml.")  # as SageMaker calls them
    kinds = catalog.instances.values() if " " not in name else ()  # no cloud's name has one, most GPUs' have
    return next((kind for kind in kinds if re.fullmatch(kind.pattern, name, re.IGNORECASE)), None)


def system_of_instance(instance: Instance, catalog: Catalog) -> str:
    """The system of a kind of machine, by its CPU if that is known."""
    cpu = catalog.cpus.get(instance.cpu)
    return cpu.platform if cpu else instance.system or ""


def host_of_name(name: str, catalog: Catalog) -> str:
    """The CPU that comes with a GPU, by the GPU's name; empty if it sits in any machine."""
    words = name_words(name)
    for gpu in catalog.gpus.values():
        for part, cpu in gpu.superchips.items():
            if holds(words, name_words(part)):
                return cpu
    named = gpu_of_name(name, catalog) or retired_of_name(name, catalog)
    return named.cpus[0] if named and len(named.cpus) == 1 else ""
