"""Selectors: words that pick variants. Words about the same axis are alternatives, words about different
axes must all hold, and `!` before a word leaves out what it matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torchsmith.catalog import Catalog
from torchsmith.edge.problem import Problem, did_you_mean
from torchsmith.matrix.variant import Package, Variant

AXES = ("package", "python", "cuda", "sm", "isa", "system", "line", "name")


@dataclass(frozen=True, slots=True)
class Term:
    """One word: an axis, a pattern on it, and whether it leaves out."""

    axis: str
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction over axes of alternatives within an axis."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, words: Iterable[str], catalog: Catalog) -> Selector:
        """Read words such as `sm120`, `sm9*`, `cpu`, `avx512*`, `package:torchvision`, `!sm110`."""
        parts = [part for word in words for part in re.split(r"[\s,]+", word) if part]
        return cls(tuple(_term(part, catalog) for part in parts))

    def matches(self, variant: Variant, line: str, catalog: Catalog) -> bool:
        wanted: dict[str, list[str]] = {}
        for term in self.terms:
            if term.negated:
                if _holds(term.axis, term.pattern, variant, line, catalog):
                    return False
            else:
                wanted.setdefault(term.axis, []).append(term.pattern)
        return all(
            any(_holds(axis, pattern, variant, line, catalog) for pattern in patterns)
            for axis, patterns in wanted.items()
        )


def _spellings(axis: str, variant: Variant, line: str, catalog: Catalog) -> tuple[str, ...]:
    """What a pattern on an axis may match in a variant."""
    cuda, sm = variant.cuda, variant.sm
    match axis:
        case "package":
            return (variant.package.value,)
        case "python":
            return (str(variant.python), variant.python.slug)
        case "cuda":
            return ("cpu",) if cuda is None else ("gpu", str(cuda), f"cuda{cuda.slug}", cuda.slug)
        case "sm":
            return () if sm is None else (str(sm), sm.capability)
        case "isa":
            return (variant.isa,)
        case "system":
            isa = catalog.isas.get(variant.isa)
            return (isa.platform, isa.platform.removesuffix("-linux")) if isa else ()
        case "line":
            return (line,)
        case _:
            return (variant.name, variant.cell)


def _holds(axis: str, pattern: str, variant: Variant, line: str, catalog: Catalog) -> bool:
    return any(fnmatchcase(text, pattern) for text in _spellings(axis, variant, line, catalog))


def _vocabulary(catalog: Catalog) -> dict[str, list[str]]:
    """Every word that an axis knows, for telling axes apart and for hints."""
    return {
        "package": [package.value for package in Package],
        "cuda": ["cpu", "gpu", *(f"cuda{cuda.slug}" for cuda in catalog.cuda), *map(str, catalog.cuda)],
        "python": [*(python.slug for python in catalog.pythons), *map(str, catalog.pythons)],
        "sm": [str(sm) for sm in catalog.gpus],
        "isa": list(catalog.isas),
        "system": ["x86_64-linux", "aarch64-linux", "x86_64", "aarch64"],
        "line": list(catalog.lines),
    }


def _term(word: str, catalog: Catalog) -> Term:
    negated = word.startswith("!")
    text = word.removeprefix("!")
    axis, colon, pattern = text.partition(":")
    if colon:
        if axis not in AXES:
            raise Problem(f"unknown axis {axis!r} in selector {word!r}", hint=did_you_mean(axis, AXES))
        if not pattern:
            raise Problem(f"nothing after {axis}: in selector {word!r}")
        return Term(axis, pattern, negated)
    for axis, known in _vocabulary(catalog).items():
        if any(fnmatchcase(value, text) for value in known):
            return Term(axis, text, negated)
    if "python" in text or text.count("-") >= 2:
        return Term("name", text, negated)
    everything = [value for known in _vocabulary(catalog).values() for value in known]
    raise Problem(f"selector {word!r} matches no axis", hint=did_you_mean(text, everything))


def choose(
    items: Iterable[Variant], words: Iterable[str], catalog: Catalog, line_of: Callable[[Variant], str]
) -> list[Variant]:
    """The variants that words select; a Problem when they select none."""
    words = list(words)
    selector = Selector.parse(words, catalog)
    chosen = [variant for variant in items if selector.matches(variant, line_of(variant), catalog)]
    if not chosen and words:
        raise Problem(
            f"no variant matches {' '.join(words)}",
            hint="words about one axis are alternatives, words about different axes must all hold",
        )
    return chosen
