"""What the catalog makes of what sources said: architectures by name, CPUs by number, contradictions."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, Gpu
from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.catalog.names import cpu_of_name
from torchsmith.catalog.runs import isa_runs
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note
from torchsmith.host.products import name_words, retired_gpus, retired_of_name

CATALOG = "the catalog"
CONFLICT = "a contradiction"
UNKNOWN = "its architecture is unknown"
# Words that only the features of one kind of CPU hold.
KINDS = {"x86_64-linux": {"sse2", "avx", "lm"}, "aarch64-linux": {"asimd", "asimddp", "atomics"}}


class Capability(msgspec.Struct, frozen=True):
    """What decides which builds run on a machine; None is unknown. Machines equal here are of one kind."""

    system: str | None = None
    features: frozenset[str] | None = None
    driver: DriverVersion | None = None
    sms: tuple[Sm, ...] | None = None  # of its GPUs, each once; empty: it has none
    unknown_gpus: tuple[str, ...] = ()  # GPUs whose architecture nobody knows, by name
    cut: bool = False  # the features are those of a list that breaks off: what it does not name is unknown
    kind: str = ""  # the microarchitecture, where features are unknown or cut
    others: tuple[str, ...] = ()  # accelerators of other makers
    conflict: str = ""  # two facts that cannot both be true


def capability_of(facts: HostFacts) -> Capability:
    """What of a machine's resolved facts decides."""
    gpus = facts.gpus.value if facts.gpus else ()
    return Capability(
        system=facts.system.value if facts.system else None,
        features=facts.features.value if facts.features else None,
        driver=facts.driver.value if facts.driver else None,
        sms=tuple(sorted({gpu.sm.value for gpu in gpus if gpu.sm})) if facts.gpus else None,
        unknown_gpus=tuple(dict.fromkeys(gpu.label for gpu in gpus if gpu.sm is None)),
        cut=facts.cut_features is not None,
        kind=facts.microarchitecture.value if facts.microarchitecture and not _whole(facts) else "",
        others=facts.others.value if facts.others else (),
        conflict=next((note.text for note in facts.notes if note.source == CONFLICT), ""),
    )


def _whole(facts: HostFacts) -> bool:
    return facts.features is not None and facts.cut_features is None


def resolve(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The facts with what the catalog adds, and a note wherever two of them cannot both be true."""
    facts = _cpu_of_gpus(_name_cpu(facts, catalog), catalog)
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
    if facts.microarchitecture is None and facts.cpu_name is not None:
        named = cpu_of_name(facts.cpu_name.value, catalog)
        if named is not None:
            source = f"{facts.cpu_name.source}, {facts.cpu_name.value}"
            facts = replace(facts, microarchitecture=Fact(named.name, source))
    if facts.microarchitecture is None or facts.microarchitecture.value in catalog.cpus:
        return facts
    said = facts.microarchitecture
    names = [known.name for known in catalog.cpus.values() if known.archspec == said.value]
    return replace(facts, microarchitecture=Fact(names[0], said.source)) if names else facts


def _cpu_of_gpus(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The CPU that a GPU is soldered to, where nothing else tells of a CPU: Grace of a GH200."""
    if facts.cpu_id or facts.cpu_name or facts.microarchitecture or facts.features or not facts.gpus:
        return facts
    for gpu in facts.gpus.value:
        host = host_of_name(gpu.name.value, catalog) if gpu.name else None
        cpu = host or _only_cpu(gpu.sm.value if gpu.sm else None, catalog)
        if cpu:
            return replace(facts, microarchitecture=Fact(cpu, f"{CATALOG}, by {gpu.label}"))
    return facts


def _only_cpu(sm: Sm | None, catalog: Catalog) -> str:
    gpu = catalog.gpus.get(sm) if sm else None
    return gpu.cpus[0] if gpu and len(gpu.cpus) == 1 else ""


def beside_gpu(host: Capability, gpu: Gpu, catalog: Catalog) -> Capability:
    """A machine with what a GPU says of it: that it cannot be there, and the CPU that it comes with."""
    if host.system is not None and host.system not in gpu.platforms:
        return replace(host, conflict=f"{gpu.name} is found on {' and '.join(gpu.platforms)} alone")
    cpu = catalog.cpus.get(_only_cpu(gpu.sm, catalog))
    if cpu is None or host.features is not None:
        return host
    features = frozenset[str]().union(*(catalog.isas[isa].needs for isa in cpu.isas))
    return replace(host, features=features, system=str(cpu.platform))


def host_of_name(name: str, catalog: Catalog) -> str:
    """The CPU that comes with a GPU, by the GPU's name; empty where it sits in any machine."""
    words = _words(name)
    for gpu in catalog.gpus.values():
        for part, cpu in gpu.superchips.items():
            own = _words(part)
            if any(words[at : at + len(own)] == own for at in range(len(words) - len(own) + 1)):
                return cpu
    found = gpu_of_name(name, catalog)
    return found.cpus[0] if found and len(found.cpus) == 1 else ""


def _features_of_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """A CPU that is known by name alone has what the catalog says; one that was read has what it shows."""
    cpu = catalog.cpus.get(facts.microarchitecture.value) if facts.microarchitecture else None
    if cpu is None:
        return facts
    by_cpu = None if cpu.mac else Fact(str(cpu.platform), f"{CATALOG}, by {cpu.name}")
    system = facts.system or by_cpu
    read = facts.cpu_id is not None or facts.cpu_name is not None
    if facts.features is not None or read:
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
    if cpu is None or facts.features is None or facts.cut_features is not None:
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
    retired = retired_of_name(gpu.name.value) if gpu.name and named is None else None
    if retired is not None:
        return replace(gpu, sm=Fact(retired.sm, f"products that are too old, by the name {gpu.label}"))
    if named is None:
        if gpu.name is not None:
            notes.append(
                Note(gpu.name.source, f"names {gpu.label}, which {CATALOG} does not know: {UNKNOWN}")
            )
        return gpu
    generation = gpu.generation.value if gpu.generation else named.generation
    if not _same_generation(generation, named.generation):
        text = f"calls {gpu.label} {generation}, which {CATALOG} does not: {UNKNOWN}"
        notes.append(Note(gpu.generation.source if gpu.generation else CATALOG, text))
        return gpu
    return replace(gpu, sm=Fact(named.sm, f"{CATALOG}, by the name {gpu.label}"))


@lru_cache(maxsize=4096)
def gpu_of_name(name: str, catalog: Catalog) -> Gpu | None:
    """The architecture of a GPU by its name; None where no part, or parts of two architectures, match.

    A part inside a longer one does not count: RTX PRO 6000 in RTX PRO 6000 Blackwell. Of a name that ends in
    dots the whole words count, unless the cut one may begin a part of another kind.
    """
    if not _explained(name):
        return None
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


def _explained(name: str) -> bool:
    """Whether all long words of a name are those of GPUs: a2-highgpu-1g merely holds the name of one."""
    long = [
        word
        for word in re.findall(r"[a-z]{5,}", re.sub(r"\.{2,}$", "", name.lower()))
        if word not in name_words()
    ]
    cut = name.endswith("..")
    return all(cut and any(known.startswith(word) for known in name_words()) for word in long)


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
    """A product that is found in one system alone says which; another one, or another CPU, contradicts it."""
    for gpu in facts.gpus.value if facts.gpus else ():
        known = catalog.gpus.get(gpu.sm.value) if gpu.sm else None
        old = retired_gpus().get(gpu.sm.value) if gpu.sm else None
        if old and old.tegra and facts.system is None:
            facts = replace(facts, system=Fact("aarch64-linux", f"{CATALOG}, by {gpu.label}"))
        if known is None:
            continue
        cpu = catalog.cpus.get(host_of_name(gpu.name.value, catalog)) if gpu.name else None
        platforms = (cpu.platform,) if cpu else known.platforms
        title = gpu.label if gpu.name else f"{known.name} ({known.title})"
        if facts.system is None and len(platforms) == 1:
            facts = replace(facts, system=Fact(platforms[0], f"{CATALOG}, by {title}"))
        elif facts.system is not None and facts.system.value in KINDS and facts.system.value not in platforms:
            only = " and ".join(platforms)
            text = f"{facts.system.source} says {facts.system.value}, but {title} is found on {only} alone"
            facts = facts.noting(CONFLICT, text)
    return facts


def known_isas(features: Collection[str] | None, system: str | None, catalog: Catalog) -> tuple[str, ...]:
    """The catalog's instruction sets that a CPU runs, the widest first."""
    if features is None:
        return ()
    able = [isa for isa in catalog.isas.values() if isa.platform == system and isa_runs(isa, features)]
    return tuple(isa.name for isa in sorted(able, key=lambda isa: isa.level, reverse=True))
