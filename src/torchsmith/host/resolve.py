"""What the catalog makes of what sources said: architectures by name, CPUs by number, contradictions."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, Gpu
from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.catalog.runs import isa_runs
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note

CATALOG = "the catalog"
# Words that only the features of one kind of CPU hold.
KINDS = {"x86_64-linux": {"sse2", "avx", "lm"}, "aarch64-linux": {"asimd", "asimddp", "atomics"}}


class Capability(msgspec.Struct, frozen=True):
    """What decides which builds run on a machine; None is unknown. Machines equal here are of one kind."""

    system: str | None = None
    features: frozenset[str] | None = None
    driver: DriverVersion | None = None
    sms: tuple[Sm, ...] | None = None  # of its GPUs, each once; empty: it has none
    unknown_gpus: tuple[str, ...] = ()  # GPUs whose architecture nobody knows, by name


def capability_of(facts: HostFacts) -> Capability:
    """What of a machine's resolved facts decides."""
    gpus = facts.gpus.value if facts.gpus else ()
    return Capability(
        system=facts.system.value if facts.system else None,
        features=facts.features.value if facts.features else None,
        driver=facts.driver.value if facts.driver else None,
        sms=tuple(sorted({gpu.sm.value for gpu in gpus if gpu.sm})) if facts.gpus else None,
        unknown_gpus=tuple(dict.fromkeys(gpu.label for gpu in gpus if gpu.sm is None)),
    )


def resolve(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The facts with what the catalog adds, and a note wherever two of them cannot both be true."""
    facts = _name_cpu(facts, catalog)
    facts = _features_of_cpu(facts, catalog)
    facts = _check_features(facts)
    facts = _check_hidden(facts, catalog)
    if facts.gpus is None:
        return facts
    notes = list(facts.notes)
    gpus = tuple(_resolve_gpu(gpu, catalog, notes) for gpu in facts.gpus.value)
    return _system_of_gpus(
        replace(facts, gpus=Fact(gpus, facts.gpus.source), notes=tuple(dict.fromkeys(notes))), catalog
    )


def find_cpu(id_: str, catalog: Catalog) -> Cpu | None:
    """The microarchitecture of a CPU by its numbers, or None."""
    words = id_.split("/")
    for cpu in catalog.cpus.values():
        if any(_id_matches(words, pattern.split("/")) for pattern in cpu.ids):
            return cpu
    return None


def _id_matches(words: list[str], pattern: list[str]) -> bool:
    return len(words) >= len(pattern) and all(
        _word_matches(word, wanted) for word, wanted in zip(words, pattern, strict=False)
    )


def _word_matches(word: str, wanted: str) -> bool:
    bounds = re.fullmatch(r"(\d+)-(\d+)", wanted)
    if bounds is None:
        return word == wanted
    return word.isdigit() and int(bounds[1]) <= int(word) <= int(bounds[2])


def _name_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """By its numbers; archspec, which lacks some CPUs, only where the catalog has no such numbers."""
    cpu = find_cpu(facts.cpu_id.value, catalog) if facts.cpu_id else None
    if cpu is not None and facts.cpu_id is not None:
        source = f"{facts.cpu_id.source}, {facts.cpu_id.value}"
        return replace(facts, microarchitecture=Fact(cpu.name, source))
    if facts.microarchitecture is None or facts.microarchitecture.value in catalog.cpus:
        return facts
    said = facts.microarchitecture
    names = [known.name for known in catalog.cpus.values() if known.archspec == said.value]
    return replace(facts, microarchitecture=Fact(names[0], said.source)) if names else facts


def _features_of_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """A CPU that is known by name alone has what the catalog says; one that was read has what it shows."""
    cpu = catalog.cpus.get(facts.microarchitecture.value) if facts.microarchitecture else None
    if cpu is None:
        return facts
    by_cpu = None if cpu.mac else Fact(str(cpu.platform), f"{CATALOG}, by {cpu.name}")
    system = facts.system or by_cpu
    if facts.features is not None or facts.cpu_id is not None:
        return replace(facts, system=system)
    features = frozenset[str]().union(*(catalog.isas[isa].needs for isa in cpu.isas))
    return replace(facts, system=system, features=Fact(features, f"{CATALOG}, by {cpu.name}"))


def _check_features(facts: HostFacts) -> HostFacts:
    """Features of another kind of CPU than the system's tell nothing."""
    if facts.features is None or facts.system is None:
        return facts
    words = KINDS.get(facts.system.value)
    others = [system for system, marks in KINDS.items() if marks & facts.features.value]
    if words is None or words & facts.features.value or not others:
        return facts
    text = (
        f"lists features of {others[0]}, but {facts.system.source} says {facts.system.value}:"
        " the features are not used"
    )
    return replace(facts, features=None).noting(facts.features.source, text)


def _check_hidden(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """Say when a CPU shows less than its kind has, as virtual machines do."""
    cpu = catalog.cpus.get(facts.microarchitecture.value) if facts.microarchitecture else None
    if cpu is None or facts.features is None:
        return facts
    shown = facts.features.value
    hidden = [isa for isa in cpu.isas if not isa_runs(catalog.isas[isa], shown)]
    if not hidden:
        return facts
    text = (
        f"this {cpu.title} CPU does not show what {', '.join(hidden)} need, as a virtual machine or the BIOS"
        " may hide it: what it shows is used"
    )
    return facts.noting(facts.features.source, text)


def _resolve_gpu(gpu: GpuFacts, catalog: Catalog, notes: list[Note]) -> GpuFacts:
    named = gpu_of_name(gpu.name.value, catalog) if gpu.name else None
    if gpu.sm is not None:
        if named is not None and named.sm != gpu.sm.value:
            listed = f"{CATALOG} lists it as {named.name}: the former is used"
            text = f"says {gpu.sm.value} for {gpu.label}, {listed}"
            notes.append(Note(gpu.sm.source, text))
        return gpu
    if named is None:
        notes.append(Note(CATALOG, f"does not know {gpu.label}: its architecture is unknown"))
        return gpu
    generation = gpu.generation.value if gpu.generation else named.generation
    if not _same_generation(generation, named.generation):
        text = f"calls {gpu.label} {generation}, which {CATALOG} does not: its architecture is unknown"
        notes.append(Note(gpu.generation.source if gpu.generation else CATALOG, text))
        return gpu
    return replace(gpu, sm=Fact(named.sm, f"{CATALOG}, by the name {gpu.label}"))


@lru_cache(maxsize=4096)
def gpu_of_name(name: str, catalog: Catalog) -> Gpu | None:
    """The architecture of a GPU by its name; None where no part, or parts of two architectures, match.

    A part inside a longer one does not count: RTX PRO 6000 in RTX PRO 6000 Blackwell. Of a name that ends in
    dots the whole words count, unless the cut one may begin a part of another kind.
    """
    cut = re.fullmatch(r"(.*?)([A-Za-z0-9]*)\.{2,}", name, re.DOTALL) if name.endswith("..") else None
    if cut is None:
        return _gpu_of_words(_words(name), catalog)
    words = _words(cut[1])
    gpu = _gpu_of_words(words, catalog)
    for part, other in _parts(catalog) if gpu else ():
        begun = [n for n in range(1, len(part)) if words[-n:] == part[:n]]
        if other != gpu and any(part[n].startswith(cut[2].lower()) for n in begun):
            return None
    return gpu


def _words(name: str) -> tuple[str, ...]:
    """A name word by word, so that A10 is not found in A100 nor L4 in L40S."""
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))


@lru_cache(maxsize=4)
def _parts(catalog: Catalog) -> list[tuple[tuple[str, ...], Gpu]]:
    return [(_words(part), gpu) for gpu in catalog.gpus.values() for part in gpu.parts]


def _gpu_of_words(words: tuple[str, ...], catalog: Catalog) -> Gpu | None:
    found = [
        (range(at, at + len(part)), gpu)
        for part, gpu in _parts(catalog)
        for at in range(len(words) - len(part) + 1)
        if words[at : at + len(part)] == part
    ]
    # A virtual GPU has its profile behind its name: RTX6000-8Q, where RTX6000 alone may be three GPUs.
    found += [
        (range(at, at + len(part) + 1), gpu)
        for gpu in catalog.gpus.values()
        for part in map(_words, gpu.vgpus)
        for at in range(len(words) - len(part))
        if words[at : at + len(part)] == part and re.fullmatch(r"\d+[a-z]*", words[at + len(part)])
    ]
    whole = {
        gpu.sm: gpu
        for spot, gpu in found
        if not any(len(other) > len(spot) and set(spot) <= set(other) for other, _ in found)
    }
    if not whole:  # rtx4090, as Slurm and people write it
        whole = {gpu.sm: gpu for part, gpu in _parts(catalog) if "".join(part) == "".join(words)}
    return next(iter(whole.values())) if len(whole) == 1 else None


def _same_generation(said: str, known: str) -> bool:
    """nvidia-smi says `Ada Lovelace` or `Ada`, and `Blackwell` for all of them."""
    return said.split()[0].lower() == known.split()[0].lower() if said else True


def _system_of_gpus(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """An integrated GPU says which system it sits in; one that cannot sit there is a contradiction."""
    for sm in capability_of(facts).sms or ():
        gpu = catalog.gpus.get(sm)
        if gpu is None:
            continue
        if facts.system is None and len(gpu.platforms) == 1:
            facts = replace(facts, system=Fact(gpu.platforms[0], f"{CATALOG}, by {gpu.name}"))
        elif facts.system is not None and facts.system.value not in gpu.platforms:
            only = " and ".join(gpu.platforms)
            text = f"says {facts.system.value}, but {gpu.name} ({gpu.title}) is found on {only} alone"
            facts = facts.noting(facts.system.source, text)
    return facts


def known_isas(features: Collection[str] | None, system: str | None, catalog: Catalog) -> tuple[str, ...]:
    """The catalog's instruction sets that a CPU runs, the widest first."""
    if features is None:
        return ()
    able = [isa for isa in catalog.isas.values() if isa.platform == system and isa_runs(isa, features)]
    return tuple(isa.name for isa in sorted(able, key=lambda isa: isa.level, reverse=True))
