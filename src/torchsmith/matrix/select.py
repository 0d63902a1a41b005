"""Selectors: words that pick variants. Words about the same axis are alternatives, words about different
axes must all hold, and `!` before a word leaves out what it matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import get_args

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.catalog.axes import CudaVersion, Platform
from torchsmith.catalog.gpu_names import (
    KnownGpu,
    begins_like_gpu,
    host_of_name,
    instance_of,
    product_of_name,
)
from torchsmith.catalog.suggest import suggestion, unknown_gpu
from torchsmith.core.problem import Invalid, NotKnown, Problem, did_you_mean
from torchsmith.matrix.variant import CpuOnly, Cuda, Variant

AXES = ("package", "python", "torch", "cuda", "sm", "isa", "system", "line", "name")
COMBINED = "words on one axis are alternatives, words on different axes must all match, ! excludes"


class Term(msgspec.Struct, frozen=True):
    """One word: an axis, a pattern on it, and whether it leaves out."""

    axis: str
    pattern: str
    negated: bool = False


class Selector(msgspec.Struct, frozen=True):
    """A conjunction over axes of alternatives within an axis."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, selectors: Iterable[str], catalog: Catalog) -> Selector:
        """Read words such as `sm120`, `sm9*`, `cpu`, `RTX 4090`, `torch:2.12`, `!sm110`."""
        selectors = [*selectors]
        words = joined(selectors, lambda words: is_product(words, catalog))
        try:
            return cls(tuple(term for word in words for term in _terms(word, catalog)))
        except NotKnown as problem:
            together = suggestion(" ".join(selectors), catalog) if len(selectors) > 1 else ""
            raise problem.replace(hint=together or problem.hint) from None

    def asks(self, axis: str) -> bool:
        """Whether a word is about this axis."""
        return any(term.axis == axis for term in self.terms)

    def matches(
        self, variant: Variant | None, line: str, catalog: Catalog, names: tuple[str, ...] = ()
    ) -> bool:
        """Whether a variant is picked; `names` are further names, the only ones of a recipe without one."""
        spellings = _spellings(variant, line, catalog, names)
        return all(self.keeps(axis, spellings.get(axis, ())) for axis in {term.axis for term in self.terms})

    def keeps(self, axis: str, spellings: Collection[str]) -> bool:
        """Whether the words about an axis allow a value with these spellings."""
        own = [term for term in self.terms if term.axis == axis]
        found = {term for term in own if any(fnmatchcase(text, term.pattern) for text in spellings)}
        wanted = {term for term in own if not term.negated}
        return not any(term.negated for term in found) and (not wanted or not wanted.isdisjoint(found))


def _spellings(
    variant: Variant | None, line: str, catalog: Catalog, names: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """What patterns may match in a variant, by axis."""
    if variant is None:
        return {"name": names}
    toolkit, sm, isa = variant.toolkit, variant.sm, catalog.isas.get(variant.isa)
    name, release = variant.backend, str(toolkit or "")
    releases: tuple[str, ...] = ("cpu",)
    if toolkit:
        other = (release, catalog.backends[name].word(release), release.replace(".", "_"))
        releases = ("gpu", *(cuda_words(variant.cuda) if variant.cuda else other))
    return {
        "package": (variant.package.name, variant.package.attr, variant.stem),
        "python": (str(variant.python), variant.python.slug),
        "cuda": releases if isinstance(variant.target, Cuda | CpuOnly) else (*releases, name),
        "sm": (str(sm), sm.capability) if sm else (variant.arch,) if variant.arch else (),
        "isa": (variant.isa,),
        "system": (isa.platform, isa.platform.removesuffix("-linux")) if isa else (),
        "line": (line,),
        "torch": _releases(catalog.lines[line].torch) if line in catalog.lines else (),
        "name": (variant.name, variant.cell, *_parts_of_name(variant), *names),
    }


def cuda_words(cuda: CudaVersion) -> tuple[str, ...]:
    """The spellings of a CUDA release: 12.8, cuda12_8, 12_8, and cu128 as PyTorch's indexes call it."""
    return str(cuda), f"cuda{cuda.slug}", cuda.slug, f"cu{cuda.major}{cuda.minor}"


def _releases(version: str) -> tuple[str, ...]:
    """A release, and what it begins with: 2.12.1, 2.12, 2."""
    parts = version.split(".")
    return tuple(".".join(parts[:end]) for end in range(len(parts), 0, -1))


def _parts_of_name(variant: Variant) -> list[str]:
    """Neighbours in a name: sm90-avx512, cuda13_0-sm90, cpu-avx2."""
    parts = variant.cell.split("-")
    return ["-".join(parts[at:end]) for at in range(len(parts)) for end in range(at + 2, len(parts) + 1)]


def _vocabulary(catalog: Catalog) -> dict[str, list[str]]:
    """Every word that an axis knows, to distinguish axes and for hints."""
    backends = [item for line in catalog.lines.values() for item in line.backends.items()]
    targets = {catalog.backends[name].word(release) for name, releases in backends for release in releases}
    others = sorted({*targets, *(name for name, releases in backends if releases)})
    return {
        "package": list(catalog.packages),
        "cuda": ["cpu", "gpu", *(word for cuda in catalog.cuda for word in cuda_words(cuda)), *others],
        "python": [*(python.slug for python in catalog.pythons), *map(str, catalog.pythons)],
        "sm": [*map(str, catalog.gpus), *catalog.gfx],
        "isa": list(catalog.isas),
        "system": [*get_args(Platform), "x86_64", "aarch64"],
        "line": list(catalog.lines),
    }


def is_product(word: str, catalog: Catalog) -> bool:
    """Whether a selector is a GPU product or a retired architecture, and not a word of an axis."""
    return _product(word, catalog) is not None and not is_of_axes(word, catalog)


def _product(word: str, catalog: Catalog) -> KnownGpu | None:
    """The GPU of a product's name or a retired architecture's."""
    retired = {str(sm): gpu for sm, gpu in catalog.retired.items()}
    return retired.get(plain_arch(word)) or product_of_name(word, catalog)


def plain_arch(word: str) -> str:
    """An architecture as names write it: sm86 for sm_86 and compute_86, which torch and nvcc print."""
    return re.sub(r"^(sm_|compute_)(?=\d)", "sm", word)


def is_of_axes(word: str, catalog: Catalog) -> bool:
    """Whether a selector is made of words of axes."""
    try:
        return bool(_words_of_axes(word, catalog))
    except Problem:
        return False


def joined(words: Sequence[str], names: Callable[[str], bool]) -> Iterator[str]:
    """Yield words, neighbours that name something together as one: RTX 4090."""

    def named(begin: int, end: int) -> bool:
        return names(" ".join(words[begin:end]))

    def cuts(begin: int, end: int) -> bool:  # RTX 4090 RTX | 3090
        more = range(end + 1, len(words) + 1)
        brand = begins_like_gpu(words[end - 1]) and named(begin, end - 1)
        return brand and any(named(end - 1, stop) for stop in more)

    begin = 0
    while begin < len(words):
        ends = range(len(words), begin + 1, -1)
        end = next((end for end in ends if named(begin, end) and not cuts(begin, end)), begin + 1)
        yield " ".join(words[begin:end])
        begin = end


def _terms(word: str, catalog: Catalog) -> list[Term]:
    """A product is its architecture; one that is soldered to a CPU, such as GH200, on that CPU's system."""
    try:
        return _words_of_axes(word, catalog)
    except NotKnown:
        negated, name = word.startswith("!"), word.removeprefix("!")
        product = _product(name, catalog)
        if product is None:
            raise
        arch = product.name
        cpu = catalog.cpus.get(host_of_name(name, catalog))
        if cpu is None:
            return [Term("sm", arch, negated)]
        isas = [isa.name for isa in catalog.isas.values() if isa.platform == cpu.platform]
        return [Term("name", f"*-{arch}-{isa}", negated) for isa in isas]


def _words_of_axes(selector: str, catalog: Catalog) -> list[Term]:
    parts = filter(None, re.split(r"[\s,]+", selector))
    return [_term(part, catalog, selector) for part in parts]


def _term(word: str, catalog: Catalog, selector: str) -> Term:
    negated = word.startswith("!")
    text = plain_arch(word.removeprefix("!"))
    axis, colon, pattern = text.partition(":")
    if colon:
        if axis not in AXES:
            raise NotKnown(f"unknown axis {axis!r} in selector {word!r}", hint=did_you_mean(axis, AXES))
        if not pattern:
            raise Invalid(f"nothing after {axis}: in selector {word!r}")
        return Term(axis, pattern, negated)
    for axis, known in _vocabulary(catalog).items():
        if any(fnmatchcase(value, text) for value in known):
            return Term(axis, text, negated)
    if "python" in text or text.count("-") >= 2 or _joins_axes(text, catalog):
        return Term("name", text, negated)
    if begins_like_gpu(selector.removeprefix("!")) and product_of_name(selector, catalog) is None:
        raise unknown_gpu(selector, catalog)
    everything = [value for known in _vocabulary(catalog).values() for value in known]
    releases = [*(f"CUDA {cuda}" for cuda in catalog.cuda), *(f"line {line}" for line in catalog.lines)]
    numbered = re.fullmatch(r"cu\d+|(cuda)?\d+[._]\d+", text)
    hint = next((f"{text} is {sm}" for sm in catalog.gpus if sm.capability == text), "")
    hint = f"torchsmith pick --gpu {text}" if instance_of(text, catalog) else hint
    hint = hint or (f"known: {', '.join(releases)}" if numbered else "")
    hint = hint or suggestion(text, catalog, everything) or suggestion(selector, catalog)
    hint = hint or "such as sm120, sm9*, 'RTX 4090', cpu, cuda13_0, avx512*, package:torchvision, !sm110"
    raise NotKnown(f"unknown selector or GPU {selector!r}", hint=hint)


def _joins_axes(text: str, catalog: Catalog) -> bool:
    """Whether a word is several joined, each of an axis: sm90-avx512."""
    known = [value for values in _vocabulary(catalog).values() for value in values]
    return "-" in text and all(any(fnmatchcase(value, part) for value in known) for part in text.split("-"))
