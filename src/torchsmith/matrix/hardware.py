"""What a product that people name is called here. A word that fits nothing exactly gets no suggestion: the
nearest spelling of a CPU may be one with more instructions, and its builds would crash."""

from __future__ import annotations

import re

from torchsmith.catalog import Catalog, Cpu, Gpu
from torchsmith.catalog.names import cpu_of_name, product_pattern

FEW = 4  # more answers than this help nobody


def parts_holding(words: str, catalog: Catalog) -> list[tuple[str, Gpu]]:
    """The parts of the catalog that some words name, whole or in part: 4090, h100, rtx4090."""
    wanted, plain = _words(words), "".join(_words(words))
    return [
        (part, gpu)
        for gpu in catalog.gpus.values()
        for part in gpu.parts
        if wanted and (_holds(_words(part), wanted) or "".join(_words(part)) == plain)
    ]


def parts_within(name: str, catalog: Catalog) -> list[str]:
    """The parts of the catalog that a name holds."""
    words = _words(name)
    return [part for gpu in catalog.gpus.values() for part in gpu.parts if _holds(words, _words(part))]


def find_cpu_by_name(words: str, catalog: Catalog) -> Cpu | None:
    """The CPU that some words name: zen4, Zen 4, Sapphire Rapids, Graviton3, EPYC 9654."""
    found = cpu_of_name(words, catalog)
    if found is not None and _explains(found, words):
        return found
    plain = "".join(_words(words))
    same = [cpu for cpu in catalog.cpus.values() if plain in ("".join(_words(name)) for name in _names(cpu))]
    return same[0] if plain and len({cpu.isas for cpu in same}) == 1 else None


def _names(cpu: Cpu) -> list[str]:
    return [cpu.name, *re.split(r"[,()]| and ", cpu.title), *cpu.also_called]


def _explains(cpu: Cpu, words: str) -> bool:
    """Whether every number of the words is the CPU's: zen 9 is not zen."""
    own = set(re.findall(r"\d+", " ".join(_names(cpu))))
    if own.issuperset(re.findall(r"\d+", words)):
        return True
    bare = re.sub(r"\((?:r|tm)\)", "", words, flags=re.IGNORECASE)
    return any(product_pattern(product).search(bare) for product in cpu.products)


def hardware_hint(words: str, catalog: Catalog) -> str:
    """What to write for a product; empty where the words name none, or too many."""
    if not re.search(r"\d", words) or ("".join(_words(words)).isdigit() and len(words) < 4):
        found: list[tuple[str, Gpu]] = []  # RTX and 40 are in too many names
    else:
        found = parts_holding(words, catalog)
    sms = dict.fromkeys(gpu.name for _, gpu in found)
    if len(sms) == 1:
        return f"{found[0][0]} is {found[0][1].name}: write {found[0][1].name}"
    if sms:
        listed = ", ".join(f"{part} is {gpu.name}" for part, gpu in found)
        return listed if len(found) <= FEW else ""
    cpu = find_cpu_by_name(words, catalog)
    if cpu is None:
        return ""
    return f"{cpu.title} runs {', '.join(cpu.isas) or 'none of the instruction sets here'}"


def typo_of(words: str, known: list[str]) -> str:
    """The one known name that differs in a letter or two, and in no digit; else nothing."""
    import difflib  # only where a name is wrong

    plain = {name: "".join(_words(name)) for name in known}
    near = difflib.get_close_matches("".join(_words(words)), plain.values(), n=3, cutoff=0.85)
    same = {
        plain[name]: name for name in known if plain[name] in near and _numbered(name) == _numbered(words)
    }
    return next(iter(same.values())) if len(same) == 1 else ""


def _numbered(name: str) -> list[str]:
    """The words that hold digits: n1 and v1 are different CPUs, not different spellings."""
    return [word for word in _words(name) if re.search(r"\d", word)]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))
