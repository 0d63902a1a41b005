"""What the catalog makes of the facts of sources: architectures by name, CPUs by number, contradictions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, Gpu
from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.catalog.facts import Gfx, IntelGpu
from torchsmith.catalog.gpu_names import (
    KnownGpu,
    gfx_of_name,
    host_of_name,
    instance_of,
    product_of_chip,
    product_of_name,
    retired_of_name,
    system_of_instance,
)
from torchsmith.catalog.names import cpu_of_name, product_pattern
from torchsmith.catalog.ranges import latest_of
from torchsmith.catalog.runs import isa_runs
from torchsmith.core.text import listed
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact

CATALOG = "the catalog"
UNKNOWN = "its architecture is unknown"
SYSTEM_NAMES = {"windows": "Windows", "darwin": "macOS", "android": "Android", "freebsd": "FreeBSD"}
# Words that only the features of one kind of CPU hold.
KINDS = {"x86_64-linux": {"sse2", "avx", "lm"}, "aarch64-linux": {"asimd", "asimddp", "atomics"}}


GpuArch = Sm | str  # NVIDIA's, or as names write another maker's


class Capability(msgspec.Struct, frozen=True):
    """What decides which builds run on a machine; None is unknown. Machines equal here are of one kind."""

    system: str | None = None
    features: frozenset[str] | None = None
    driver: DriverVersion | None = None
    sms: tuple[Sm, ...] | None = None  # of its GPUs, each once; empty: it has none
    unknown_gpus: tuple[str, ...] = ()  # GPUs whose architecture is unknown, by name
    kind: str = ""  # the microarchitecture, if features are unknown
    non_nvidia_gpus: tuple[str, ...] = ()  # accelerators of other makers
    targets: tuple[tuple[str, str], ...] = ()  # of those and of Macs, by name: what GPU code is compiled for
    named: tuple[tuple[str, Sm], ...] = ()  # NVIDIA's by name
    conflict: str = ""  # two facts that cannot both be true
    glibc: str = ""
    macos: str = ""  # its release
    release: str = ""  # of its system, as systems.toml calls it
    windows: bool = False  # the driver is numbered as Windows' are
    spoken: tuple[tuple[str, str], ...] = ()  # what a person wrote and no tool: a code and a condition

    @property
    def archs(self) -> tuple[GpuArch, ...]:
        """The architectures of all of its GPUs, each once."""
        return (*(self.sms or ()), *dict.fromkeys(arch for _, arch in self.targets))

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Its GPUs of all makers by name, each once."""
        return tuple(dict.fromkeys([*map(self.called, self.archs), *self.non_nvidia_gpus]))

    def called(self, arch: GpuArch) -> str:
        """The name of a GPU by its architecture; that, if the GPU has none."""
        return next((name for name, own in (*self.named, *self.targets) if own == arch), str(arch))

    def code_for(self, arch: GpuArch) -> str:
        """That a build has code for one of its GPUs."""
        name = self.called(arch).removesuffix(f" ({arch})")
        return f"native code for {arch}" if name == str(arch) else f"native code for your {name} ({arch})"


def is_windows(system: Fact[str] | None) -> bool:
    """Whether a system is Windows itself, not its WSL."""
    return system is not None and system.value.endswith("-windows")


def capability_of(facts: HostFacts) -> Capability:
    """What of a machine's resolved facts decides."""
    gpus = facts.gpus.value if facts.gpus else ()
    return Capability(
        system=facts.system.value if facts.system else None,
        features=facts.features.value if facts.features else None,
        driver=facts.driver.value if facts.driver else None,
        sms=tuple(sorted({gpu.sm.value for gpu in gpus if gpu.sm})) if facts.gpus else None,
        unknown_gpus=tuple(dict.fromkeys(gpu.label for gpu in gpus if gpu.sm is None)),
        kind=facts.microarchitecture.value if facts.microarchitecture and not facts.features else "",
        non_nvidia_gpus=tuple(dict.fromkeys(facts.non_nvidia_gpus.value)) if facts.non_nvidia_gpus else (),
        targets=tuple(facts.targets.value.items()) if facts.targets else (),
        named=tuple(dict.fromkeys((gpu.label, gpu.sm.value) for gpu in gpus if gpu.name and gpu.sm)),
        conflict=next((note.text for note in facts.notes if note.code == "conflict"), ""),
        glibc=facts.glibc.value if facts.glibc else "",
        macos=facts.macos.value if facts.macos else "",
        release=facts.release.value if facts.release else "",
        windows=is_windows(facts.system) or facts.windows is not None,
        spoken=tuple(_spoken(facts)),
    )


def _spoken(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """The conditions of facts that are in a sentence and in no tool's line."""
    gpus = [gpu.name or gpu.sm for gpu in facts.gpus.value] if facts.gpus else []
    names = [str(name.value) for name in gpus if name and name.prose]
    names += facts.non_nvidia_gpus.value if facts.non_nvidia_gpus and facts.non_nvidia_gpus.prose else ()
    if names:
        yield "gpu-spoken", f"its GPU is the {listed(dict.fromkeys(names))} of the text"
    for gpu in facts.gpus.value if facts.gpus else ():
        if gpu.name and gpu.sm and gpu.sm.prose:
            text = f"its {gpu.label} is {gpu.sm.value}, as {gpu.sm.source} says and the catalog does not"
            yield "gpu-spoken", text
    if facts.system and facts.system.prose:
        machine, _, kernel = facts.system.value.partition("-")
        if kernel == "linux":
            yield "system", f"this machine is {facts.system.value}: `uname -m` says {machine}"
        elif not facts.macos:
            yield "system", f"this machine runs {SYSTEM_NAMES.get(kernel, kernel)}, as the text says"


def resolve(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The facts with what the catalog adds, and a note wherever two of them cannot both be true."""
    facts = _of_jetpack(_of_instance(facts, catalog), catalog)
    facts = _cpu_of_gpus(_name_cpu(facts, catalog), catalog)
    facts = _features_of_cpu(facts, catalog)
    facts = _gpu_of_cpu(_check_hidden(facts, catalog), catalog)
    return _name_targets(_system_of_gpus(_resolve_gpus(facts, catalog), catalog), catalog)


def _name_targets(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The architectures of other makers' GPUs: by name, or those that all machines of a system have."""
    names = facts.non_nvidia_gpus.value if facts.non_nvidia_gpus else ()
    targets = {name: gfx.name for name in names if (gfx := gfx_of_name(name, catalog))}
    system = facts.system.value if facts.system else ""
    for backend in catalog.backends.values():
        if backend.isa and any(may_be(system, platform) for platform in backend.systems):
            targets |= {f"{backend.vendor} GPU": arch for arch in catalog.archs_of(backend)}
    return replace(facts, targets=Fact(targets, CATALOG) if targets else None)


def _of_instance(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """What a machine's type implies, if nothing else is known."""
    stated = facts.instance
    instance = instance_of(stated.value, catalog) if stated else None
    if instance is None or stated is None:
        return facts
    source = f"{stated.source}, {stated.value}"
    if facts.gpus is None or not any(gpu.name or gpu.sm for gpu in facts.gpus.value):
        count = max(len(facts.gpus.value), 1) if facts.gpus else 1
        gpu = GpuFacts(name=Fact(instance.gpu, source))
        facts = replace(facts, gpus=Fact((gpu,) * count, source))
    cpu_facts = facts.cpu_id or facts.cpu_name or facts.microarchitecture or facts.features
    if instance.cpu and not cpu_facts:
        facts = replace(facts, microarchitecture=Fact(instance.cpu, source))
    system = Fact(system_of_instance(instance, catalog), source)
    return replace(facts, system=facts.system or system)


def _of_jetpack(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The part, driver and CUDA of a release of Linux for Tegra."""
    if facts.l4t is None:
        return facts
    source = f"{facts.l4t.source}, L4T {facts.l4t.value}"
    known = catalog.jetpacks.get(latest_of({name: name for name in catalog.jetpacks}, facts.l4t.value))
    unnamed = facts.gpus is None or not any(gpu.name or gpu.sm for gpu in facts.gpus.value)
    if unnamed and known and known.part:
        facts = replace(facts, gpus=Fact((GpuFacts(name=Fact(known.part, source)),), source))
    elif unnamed:
        facts = replace(facts, gpus=Fact((GpuFacts(name=Fact("a Jetson", source)),), source))
        facts = facts.noting(source, "does not name the board: Orin, Xavier and others run it")
    if known is None:
        return facts
    if known.cuda:
        facts = facts.noting(source, f"has CUDA {known.cuda}")
    return replace(facts, driver=facts.driver or driver_fact(known.driver, source, []))


def find_cpu(id_: str, catalog: Catalog) -> Cpu | None:
    """The microarchitecture of a CPU by its numbers, or None."""
    parts = id_.split("/")
    for cpu in catalog.cpus.values():
        if any(_id_matches(parts, pattern.split("/")) for pattern in cpu.ids):
            return cpu
    return None


def _id_matches(parts: list[str], pattern: list[str]) -> bool:
    return len(parts) >= len(pattern) and all(
        _word_matches(word, wanted) for word, wanted in zip(parts, pattern, strict=False)
    )


def _word_matches(word: str, wanted: str) -> bool:
    bounds = re.fullmatch(r"(\d+)-(\d+)", wanted)
    if bounds is None:
        return word == wanted
    return word.isdigit() and int(bounds[1]) <= int(word) <= int(bounds[2])


def _name_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """By its numbers, else by its name."""
    cpu = find_cpu(facts.cpu_id.value, catalog) if facts.cpu_id else None
    if cpu is not None and facts.cpu_id is not None:
        source = f"{facts.cpu_id.source}, {facts.cpu_id.value}"
        return replace(facts, microarchitecture=Fact(cpu.name, source))
    if facts.microarchitecture is None and facts.cpu_name is not None:
        named = cpu_of_name(facts.cpu_name.value, catalog)
        if named is not None:
            source = f"{facts.cpu_name.source}, {facts.cpu_name.value}"
            facts = replace(facts, microarchitecture=Fact(named.name, source, facts.cpu_name.prose))
    return facts


def _cpu_of_gpus(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The CPU that a GPU is soldered to, such as Grace of a GH200, whichever CPU of its kind a text names."""
    if facts.cpu_id or facts.features or not facts.gpus:
        return facts
    stated = facts.microarchitecture
    named = catalog.cpus.get(stated.value) if stated else None
    for gpu in facts.gpus.value:
        cpu = catalog.cpus.get(cpu_beside(gpu, catalog))
        other = named and cpu and named.platform != cpu.platform
        if cpu and (stated is None or stated.prose or (facts.cpu_name and not other)):
            source = f"{CATALOG}, by {gpu.label}"
            return replace(facts, microarchitecture=Fact(cpu.name, source), cpu_name=None)
    return facts


def _gpu_of_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The GPU that a CPU has in itself, if no other is known; if no wheel has code for it, a note."""
    name = facts.cpu_name
    if name is None or facts.non_nvidia_gpus is not None or (facts.gpus and facts.gpus.value):
        return facts
    for gfx in catalog.gfx.values():
        own = (gpu for gpu, cpu in gfx.cpus.items() if product_pattern(cpu).search(name.value))
        product = next(own, "")
        if product and any(gfx.name in index.gfx for index in catalog.wheels.values()):
            gpu = Fact((product,), f"{CATALOG}, by {name.value}", name.prose)
            return replace(facts, gpus=facts.gpus or Fact((), gpu.source), non_nvidia_gpus=gpu)
        if product:
            text = f"{name.value} has a {product} ({gfx.name}), which no wheel has code for"
            return facts.noting(name.source, f"{text}: torchsmith pick --gpu '{product}' says what may run")
    return facts


def _features_of_cpu(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """A CPU that is known by name alone has what the catalog says; one that was read has what it shows."""
    cpu = catalog.cpus.get(facts.microarchitecture.value) if facts.microarchitecture else None
    if cpu is None:
        return facts
    spoken = bool(facts.microarchitecture and facts.microarchitecture.prose)
    usual = "" if facts.release and not facts.macos else cpu.system  # a Mac may run Linux
    system = facts.system or Fact(usual or str(cpu.platform), f"{CATALOG}, by {cpu.name}", spoken)
    read = facts.cpu_id is not None or facts.cpu_name is not None
    if facts.features is not None or read:
        return replace(facts, system=system)
    features = frozenset[str]().union(*(catalog.isas[isa].needs for isa in cpu.isas))
    return replace(facts, system=system, features=Fact(features, f"{CATALOG}, by {cpu.name}"))


def _check_hidden(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """Say when a CPU shows less than its kind has, as virtual machines do."""
    cpu = catalog.cpus.get(facts.microarchitecture.value) if facts.microarchitecture else None
    if cpu is None or facts.features is None:
        return facts
    visible = facts.features.value
    hidden = [isa for isa in cpu.isas if not isa_runs(catalog.isas[isa], visible)]
    if not hidden:
        return facts
    text = (
        f"this {cpu.title} CPU does not show what {', '.join(hidden)} need, as a virtual machine or the BIOS"
        " may hide it: what it shows is used"
    )
    return facts.noting(facts.features.source, text)


def _resolve_gpus(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """Each GPU's architecture; those of AMD and Intel are kept apart from NVIDIA's, each once."""
    if facts.gpus is None:
        return facts
    notes = list(facts.notes)
    gpus: list[GpuFacts] = []
    non_nvidia: list[str] = []
    for gpu in facts.gpus.value:
        product = product_of_name(gpu.name.value, catalog) if gpu.name else None
        if isinstance(product, Gfx | IntelGpu) and gpu.sm is None:
            non_nvidia.append(gpu.label)
        else:
            gpus.append(_resolve_gpu(gpu, product, catalog, notes))
    stated = facts.non_nvidia_gpus or Fact((), facts.gpus.source)
    named = any(gpu.name and gpu.name.prose for gpu in facts.gpus.value)
    prose = stated.prose or (bool(non_nvidia) and named)
    names = (*non_nvidia, *(name for name in stated.value if name not in non_nvidia))
    return replace(
        facts,
        gpus=Fact(tuple(gpus), facts.gpus.source),
        non_nvidia_gpus=Fact(names, stated.source, prose) if names else facts.non_nvidia_gpus,
        notes=tuple(dict.fromkeys(notes)),
    )


def _resolve_gpu(gpu: GpuFacts, product: KnownGpu | None, catalog: Catalog, notes: list[Note]) -> GpuFacts:
    named = product if isinstance(product, Gpu) else None
    if gpu.sm is not None:
        if named is not None and named.sm != gpu.sm.value:
            listed = f"{CATALOG} lists it as {named.name}: the former is used"
            notes.append(Note(gpu.sm.source, f"says {gpu.sm.value} for {gpu.label}, {listed}"))
            return replace(gpu, sm=Fact(gpu.sm.value, gpu.sm.source, True))
        return gpu
    chip = product_of_chip(gpu.chip.value, catalog) if gpu.chip else None
    if product is None and chip is not None and gpu.chip is not None:
        return replace(gpu, sm=Fact(chip.sm, f"{gpu.chip.source}, chip {gpu.chip.value}"))
    if gpu.either is not None and gpu.name is None:
        known = {name: product_of_name(name, catalog) for name in gpu.either.value}
        several = ", ".join(f"{name} ({one.name if one else 'unknown'})" for name, one in known.items())
        notes.append(Note(gpu.either.source, f"names several: {several}; state one of them", "gpu"))
    if product is None or isinstance(product, Gfx | IntelGpu):
        if gpu.name is not None:
            text = f"names {gpu.label}, which {CATALOG} does not know: {UNKNOWN}"
            notes.append(Note(gpu.name.source, text, "gpu"))
        return gpu
    return replace(gpu, sm=Fact(product.sm, f"{CATALOG}, by the name {gpu.label}"))


def _system_of_gpus(facts: HostFacts, catalog: Catalog) -> HostFacts:
    """The system of a product that exists on one system alone; another one contradicts it.

    A card says nothing of the machine that it is in, whatever the builds here are for.
    """
    for gpu in facts.gpus.value if facts.gpus else ():
        only = only_system(gpu, catalog)
        if only and facts.system is None:
            facts = replace(facts, system=Fact(only, f"{CATALOG}, by {gpu.label}"))
        elif only and facts.system and facts.system.value in KINDS and facts.system.value != only:
            text = f"{gpu.label} exists only on {only}, and this machine is {facts.system.value}"
            facts = facts.noting(facts.system.source, text, "conflict")
        retired = catalog.retired.get(gpu.sm.value) if gpu.sm else None
        glibc = Fact(retired.glibc, f"{CATALOG}, by {gpu.label}") if retired and retired.glibc else None
        facts = replace(facts, glibc=facts.glibc or glibc)
    return facts


def cpu_beside(gpu: GpuFacts, catalog: Catalog) -> str:
    """The CPU that a GPU is part of or soldered to, such as Grace of a GH200; empty for a card."""
    if gpu.name and (named := host_of_name(gpu.name.value, catalog)):
        return named
    known = catalog.gpus.get(gpu.sm.value) or catalog.retired.get(gpu.sm.value) if gpu.sm else None
    return known.cpus[0] if known and len(known.cpus) == 1 else ""


def only_system(gpu: GpuFacts, catalog: Catalog) -> str:
    """The one system of such a GPU; empty for a card."""
    cpu = catalog.cpus.get(cpu_beside(gpu, catalog))
    named = retired_of_name(gpu.name.value, catalog) if gpu.name else None
    retired = catalog.retired.get(gpu.sm.value) if gpu.sm else named
    return str(cpu.platform) if cpu else "aarch64-linux" if retired and retired.tegra else ""


def may_be(system: str | None, platform: str) -> bool:
    """Whether a machine may be of a platform: nothing says which it is, or only that it is a Mac."""
    return system in (None, platform) or (system == "any-darwin" and platform.endswith("-darwin"))


def known_isas(features: Collection[str] | None, system: str | None, catalog: Catalog) -> tuple[str, ...]:
    """The catalog's instruction sets that a CPU runs, the widest first."""
    if features is None:
        return ()
    able = [isa for isa in catalog.isas.values() if isa.platform == system and isa_runs(isa, features)]
    return tuple(isa.name for isa in sorted(able, key=lambda isa: isa.level, reverse=True))
