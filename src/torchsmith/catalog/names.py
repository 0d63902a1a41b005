"""From what people and /proc/cpuinfo call a CPU or a GPU to what it is called here.

A word that fits nothing exactly is never taken for its nearest spelling, which may be a CPU with more
instructions: the user is asked."""

from __future__ import annotations

import re
from functools import lru_cache

from torchsmith.catalog.facts import Cpu
from torchsmith.catalog.load import Catalog

_MARKS = r"\((r|tm|c)\)|[®™]"
_NOISE = r"(?i)\b(cpu|processor)\b"


def cpu_of_name(name: str, catalog: Catalog) -> Cpu | None:
    """The microarchitecture that a name is of: a product number by the rule of its family, else a code name
    or a name that people use, the longest first. None if no name, or names of CPUs that differ in their
    instruction sets, match."""
    if name.lower() in catalog.cpus:
        return catalog.cpus[name.lower()]
    name = " ".join(re.sub(_NOISE, " ", re.sub(_MARKS, "", name, flags=re.IGNORECASE)).split())
    if products := [cpu for pattern, cpu in _products(catalog) if pattern.search(name)]:
        return _agreed(products)
    words = name_words(name)
    matches = [(len(own), cpu) for own, cpu in _names(catalog) if holds(words, own)]
    longest = max((length for length, _ in matches), default=0)
    return _agreed([cpu for length, cpu in matches if length == longest])


@lru_cache(maxsize=4)
def _products(catalog: Catalog) -> list[tuple[re.Pattern[str], Cpu]]:
    return [(product_pattern(product), cpu) for cpu in catalog.cpus.values() for product in cpu.products]


@lru_cache(maxsize=4)
def _names(catalog: Catalog) -> list[tuple[tuple[str, ...], Cpu]]:
    """The words of every name that a CPU goes by."""
    return [
        (name_words(name), cpu)
        for cpu in catalog.cpus.values()
        for name in (*re.sub(r"\([^)]*\)", "", cpu.title).split(","), *cpu.also_called)
    ]


def product_pattern(text: str) -> re.Pattern[str]:
    """A product's pattern, as whole words whatever their case."""
    return re.compile(rf"(?<![\w-])(?:{text})(?![\w+])", re.IGNORECASE)


def _agreed(cpus: list[Cpu]) -> Cpu | None:
    return cpus[0] if cpus and len({(cpu.platform, cpu.isas) for cpu in cpus}) == 1 else None


def name_words(name: str) -> tuple[str, ...]:
    """A name word by word, so that A10 is not found in A100 nor L4 in L40S."""
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))


def _plain(name: str) -> str:
    """Without spaces, dashes and capitals: rtx4090."""
    return "".join(name_words(name))


def holds(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Whether words are in others, one after the other."""
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))


def find_cpu_by_name(text: str, catalog: Catalog) -> Cpu | None:
    """The CPU that some words name: zen4, Zen 4, Sapphire Rapids, Graviton3, EPYC 9654, M2 Max."""
    text = _usual_form(text)
    cpu = cpu_of_name(text, catalog)
    if cpu is not None and _explains(cpu, text):
        return cpu
    plain = _plain(text)
    same = [cpu for cpu in catalog.cpus.values() if plain in map(_plain, _spellings(cpu))]
    return same[0] if plain and len({cpu.isas for cpu in same}) == 1 else None


def _usual_form(text: str) -> str:
    """M2 Max, or MacBook Pro M2 Max, as Apple M2 Max, and i7 8700K as i7-8700K; other words as they are."""
    text = re.sub(r"(?i)\b(i[3579]) (?=\d{4})", r"\1-", text)
    model = r"macbook(?: air| pro)?|mac (?:mini|studio|pro)|imac"
    text = re.sub(rf"(?i)^(?:apple )?(?:{model}) (?:apple )?(?=m\d\b)", "Apple ", text)
    return re.sub(r"(?i)^(?=m\d (?:pro|max|ultra)$)", "Apple ", text)


def cpu_of_words(text: str, catalog: Catalog) -> Cpu | None:
    """The CPU that all of the words name together: AMD Ryzen 9 7950X, but not Ryzen 9 7950X avx2."""
    text = _usual_form(text)
    cpu = find_cpu_by_name(text, catalog)
    bare = " ".join(
        re.sub(rf"{_MARKS}|\b(amd|intel|cpu|processor)\b", " ", text, flags=re.IGNORECASE).split()
    )
    names = [*map(_plain, _spellings(cpu))] if cpu else []
    products = cpu.products if cpu else ()
    whole = any(re.fullmatch(f"(core )?({product})", bare, re.IGNORECASE) for product in products)
    return cpu if whole or _plain(bare) in names else None


def _spellings(cpu: Cpu) -> list[str]:
    return [cpu.name, *re.split(r"[,()]| and ", cpu.title), *cpu.also_called]


def _explains(cpu: Cpu, text: str) -> bool:
    """Whether every number of the words is the CPU's: zen 9 is not zen."""
    own = set(re.findall(r"\d+", " ".join(_spellings(cpu))))
    if own.issuperset(re.findall(r"\d+", text)):
        return True
    bare = re.sub(r"\((?:r|tm)\)", "", text, flags=re.IGNORECASE)
    return any(product_pattern(product).search(bare) for product in cpu.products)
