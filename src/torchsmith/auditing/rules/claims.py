"""Claims: what a package's description says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from torchsmith.auditing.rule import LIKELY, Defect, rule
from torchsmith.catalog import Catalog, Gpu
from torchsmith.core.text import listed
from torchsmith.matrix import Variant
from torchsmith.matrix.cells import toolkit_title
from torchsmith.matrix.variant import CUDA
from torchsmith.recipe.read import Located, Recipe, Span
from torchsmith.workspace.subject import Subject


@rule("TS601", "description of another build", sure=LIKELY, unless=("gpu_unknown",))
def description_is_of_the_build(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """People choose a package by `meta.description`. The GPUs, instruction set, release of CUDA or ROCm, and
    release of torch in it must be those of the build: an L40S is SM89 and not Hopper, an Orin is SM87 and not
    Thor. Comments and `longDescription`, which may compare builds, are not read."""
    catalog, isa = subject.catalog, subject.isa
    toolkit = toolkit_title(variant, catalog)
    gpu = variant.arch or "the CPU alone"
    torch = subject.version_given("torch", "pytorch") or (subject.line.torch if subject.line else "")
    for description in subject.body.strings("description"):
        wrong: dict[str, str] = {}  # what it names, and what the recipe is for instead
        archs: list[str] = []
        for match in _words(catalog).finditer(description.value):
            word, number = match[0], match["sm"]
            if number or match["arch"]:
                right, is_ = (f"sm{number}" if number else word) == variant.arch, gpu
            elif match["product"]:
                of = [own.name for own in _called(word, catalog)]
                right, is_ = variant.arch in of, gpu
                archs += [] if right else [f"{word} is {' or '.join(of)}"]
            elif match["isa"]:
                other = next(one for one in catalog.isas.values() if word in (one.title, *one.words))
                family = isa is not None and isa.family == other.family and other.features <= isa.features
                right, is_ = family, isa.title if isa else variant.isa
            elif match["toolkit"]:
                right, is_ = word in (toolkit, toolkit.partition(".")[0]), toolkit or gpu
            else:
                right, is_ = not torch or f"{torch}.".startswith(f"{match['torch']}."), f"torch {torch}"
            if not right:
                wrong.setdefault(word, is_)
        if wrong:
            own = ", ".join(dict.fromkeys(wrong.values()))
            message = f"the description names {listed([*wrong])}; the recipe is for {own}"
            place, recipe = _place(subject, description, next(iter(wrong)))
            yield Defect(message, place, hint="; ".join(archs[:1]), of=recipe)


def _place(subject: Subject, description: Located[str], word: str) -> tuple[Span, Recipe | None]:
    """Where a word of a description is written: in it, in a string that it takes in, or in what a wrapper
    passes; and the recipe that this is in, if it is the wrapper."""
    syntax, span, letters = subject.body.syntax, description.span, word.encode()
    start = syntax.data.find(letters, span.start, span.end)
    if start >= 0:
        return syntax.span_at(start, start + len(letters)), None
    if match := re.search(rf"(?<!\w){re.escape(word)}(?!\w)", subject.code):
        return subject.span(match), None
    wrapper = subject.recipe.wrapper
    return (wrapper.span, subject.recipe) if wrapper else (span, None)


def _called(word: str, catalog: Catalog) -> Iterator[Gpu]:
    """The GPU architectures that a product or generation is of."""
    for gpu in catalog.gpus.values():
        if word in (*gpu.parts, *gpu.also_called, gpu.generation, gpu.generation.split()[0]):
            yield gpu


@lru_cache(1)
def _words(catalog: Catalog) -> re.Pattern[str]:
    """What a description may name; the group that matched says of what kind it is."""
    gpus = catalog.gpus.values()
    products = {word for gpu in gpus for word in (*gpu.parts, *gpu.also_called, gpu.generation)}
    products |= {gpu.generation.split()[0] for gpu in gpus}
    others = [backend for name, backend in catalog.backends.items() if name != CUDA and backend.release_of]
    isas = [word for isa in catalog.isas.values() for word in (isa.title, *isa.words)]
    return re.compile(
        r"\b(?:SM|sm)_?(?P<sm>\d{2,3})\b"
        rf"|\b(?P<arch>{'|'.join(backend.arch for backend in others) or '(?!)'})\b"
        rf"|\b(?P<product>{_any(products)})(?![\w-])"
        rf"|\b(?P<isa>{_any(isas)})(?!\w|[.-]\d)"
        rf"|\b(?P<toolkit>(?:CUDA|{_any(backend.title for backend in others)}) \d+(?:\.\d+)?)"
        r"|\bPyTorch v?(?P<torch>\d+\.\d+(?:\.\d+)?)\b"
    )


def _any(words: Iterable[str]) -> str:
    """Any of the words, the longest first."""
    return "|".join(map(re.escape, sorted(set(words), key=len, reverse=True))) or "(?!)"
