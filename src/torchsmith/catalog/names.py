"""From a CPU's name, as people and /proc/cpuinfo write it, to its microarchitecture."""

from __future__ import annotations

import re
from functools import lru_cache

from torchsmith.catalog.facts import Cpu
from torchsmith.catalog.load import Catalog

_MARKS = r"(?i)\((r|tm|c)\)|[®™]"
_NOISE = r"(?i)\b(cpu|processor)\b"


def cpu_of_name(name: str, catalog: Catalog) -> Cpu | None:
    """The microarchitecture that a name is of: a product number by the rule of its family, else a code name
    or a name that people use, the longest first. None where no name, or names of CPUs that differ in their
    instruction sets, match."""
    if name.lower() in catalog.cpus:
        return catalog.cpus[name.lower()]
    return _lookup(catalog).find(" ".join(re.sub(_NOISE, " ", re.sub(_MARKS, "", name)).split()))


class _CpuLookup:
    """The catalog's CPUs by pattern and by words."""

    def __init__(self, catalog: Catalog) -> None:
        cpus = catalog.cpus.values()
        self.products = [(product_pattern(one), cpu) for cpu in cpus for one in cpu.products]
        self.names = [(_words(name), cpu) for cpu in cpus for name in _names(cpu)]

    def find(self, name: str) -> Cpu | None:
        products = [cpu for pattern, cpu in self.products if pattern.search(name)]
        if products:
            return _agreed(products)
        words = _words(name)
        found = [(len(own), cpu) for own, cpu in self.names if _holds(words, own)]
        longest = max((length for length, _ in found), default=0)
        return _agreed([cpu for length, cpu in found if length == longest])


@lru_cache(maxsize=4)
def _lookup(catalog: Catalog) -> _CpuLookup:
    return _CpuLookup(catalog)


def product_pattern(text: str) -> re.Pattern[str]:
    """A product's pattern, as whole words whatever their case."""
    return re.compile(rf"(?<![\w-])(?:{text})(?![\w+])", re.IGNORECASE)


def _names(cpu: Cpu) -> tuple[str, ...]:
    titles = re.sub(r"\([^)]*\)", "", cpu.title).split(",")
    return (*titles, *cpu.also_called)


def _agreed(cpus: list[Cpu]) -> Cpu | None:
    return cpus[0] if cpus and len({(cpu.platform, cpu.isas) for cpu in cpus}) == 1 else None


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))


def _holds(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))
