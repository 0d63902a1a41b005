"""Facts that a person states, in options or in the rows of an inventory, and what they replace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu
from torchsmith.catalog.axes import BadValue, DriverVersion, Sm
from torchsmith.catalog.gpu_names import (
    BETWEEN,
    instance_of,
    mac_chip,
    product_of_name,
    system_of_instance,
)
from torchsmith.catalog.names import find_cpu_by_name
from torchsmith.catalog.suggest import unknown_gpu
from torchsmith.core.problem import Conflict, Invalid, NotKnown, by_name, nearest
from torchsmith.core.text import listed
from torchsmith.host.facts import TIME_LIMIT, Fact, GpuFacts, HostFacts, fact_of
from torchsmith.host.read_cpu import system_of_machine
from torchsmith.host.resolve import KINDS, only_system, resolve
from torchsmith.host.scan import scan
from torchsmith.host.tokens import unserved_system, words
from torchsmith.matrix.select import is_product

MOST_GPUS = 64  # of a machine
MOST_NEWER = 100  # series of drivers that may come until the catalog is updated
NEAR_CPU = 0.85  # how much of a misspelt name must be right
NO_GPU = ("none", "no gpu", "no gpus", "no nvidia gpu", "cpu only")


def stated_facts(
    catalog: Catalog,
    source: str,
    *,
    system: str = "",  # x86_64, aarch64-linux
    cpu: str = "",  # a microarchitecture: zen4, Sapphire Rapids, Graviton3
    isa: str = "",  # the widest instruction set of ours that it runs
    features: str = "",  # as /proc/cpuinfo lists them
    gpu: str = "",  # names or architectures: 8x H100; RTX 3090 + RTX 4090; none
    sm: str = "",  # architectures, if they are known better than names
    driver: str = "",
) -> HostFacts:
    """What a person says of a machine as facts. Raises a Problem that names an unknown word."""
    if mac := mac_chip(gpu, catalog):
        cpu, gpu = cpu or mac, ""
    known_isa = by_name("instruction set", isa, catalog.isas) if isa else None
    instance = instance_of(gpu, catalog) if gpu and not sm else None
    gpus = sm or ("" if instance else gpu)
    known_cpu = catalog.cpus.get(find_cpu_name(cpu, catalog)) if cpu else None
    described = _system(system, known_cpu, catalog, source) if system else HostFacts()
    other = str(known_isa.platform) if known_isa else ""
    other = other or (system_of_instance(instance, catalog) if instance else "")
    if known_isa and known_cpu and known_isa.name not in known_cpu.isas:
        runs = ", ".join(known_cpu.isas)
        raise Conflict(f"{known_cpu.title} does not run {known_isa.name}", hint=f"it runs {runs}")
    listed = known_isa.needs if known_isa else None
    if features:
        listed = frozenset(features.lower().replace(",", " ").split())
        needed = frozenset[str]().union(*KINDS.values(), *(isa.needs for isa in catalog.isas.values()))
        if listed.isdisjoint(needed):
            hint = "features are the flags of /proc/cpuinfo: 'avx avx2 fma f16c ...'"
            raise NotKnown(f"no CPU feature is known in {features!r}", hint=hint)
    return HostFacts(
        system=described.system or fact_of(other, source),
        macos=described.macos,
        release=described.release,
        glibc=described.glibc,
        driver=Fact(_driver(driver, catalog), source) if driver else None,
        features=None if listed is None else Fact(listed, source),
        gpus=Fact(tuple(_gpus(gpus, catalog, source)), source) if gpus else None,
        microarchitecture=Fact(find_cpu_name(cpu, catalog), source) if cpu else None,
        instance=Fact(gpu, source) if instance else None,
    )


def gather(
    reports: Sequence[Path], stated: HostFacts, catalog: Catalog, limit: float = TIME_LIMIT
) -> HostFacts:
    """This machine's resolved facts, or those of reports about another, and what a person states instead.

    A CPU or system stated without a report describes another machine than this one, as do features of another
    kind of CPU. `limit`: seconds to wait for a tool.
    """
    if stated.features and not stated.system:
        kinds = [system for system, marks in KINDS.items() if marks & stated.features.value]
        if kinds and system_of_machine(os.uname().machine) not in kinds:
            stated = replace(stated, system=Fact(kinds[0], stated.features.source))
    if reports:
        from torchsmith.host.read_report import machine_of, read_report_file

        known = machine_of(read_report_file(path, catalog) for path in reports)
    elif stated.microarchitecture or stated.system or stated.release or _sits_elsewhere(stated, catalog):
        known = HostFacts()
    else:
        from torchsmith.host.detect import ThisMachine, detect

        known = detect(ThisMachine(), limit)
    facts = resolve(_replace_facts(known, stated), catalog)
    if stated.driver is not None and not (facts.gpus and facts.gpus.value):
        raise Conflict("a driver is given, and no NVIDIA GPU", hint="add its GPU, such as RTX 4090")
    if stated.gpus and stated.gpus.value and facts.system and facts.system.value.endswith("-darwin"):
        label = stated.gpus.value[0].label
        raise Conflict(f"macOS has no driver for {label}", hint="leave it out: torch uses Apple's GPU alone")
    return facts


def _sits_elsewhere(stated: HostFacts, catalog: Catalog) -> bool:
    """Whether a GPU that a person names decides its machine: a GH200 has its own CPU, wherever this runs."""
    return any(only_system(gpu, catalog) for gpu in stated.gpus.value) if stated.gpus else False


def _replace_facts(facts: HostFacts, stated: HostFacts) -> HostFacts:
    """The facts with single ones replaced by what a person states, and a note if that changes one."""
    for field, label in _LABELS.items():
        new, old = getattr(stated, field), getattr(facts, field)
        if new is None:
            continue
        if old is not None and old.value and old.value not in ((GpuFacts(),), new.value):
            facts = facts.noting(old.source, f"{label} replaced by what {new.source} says")
        facts = replace(facts, **{field: new})
    if stated.gpus is not None:
        facts = replace(facts, non_nvidia_gpus=Fact((), stated.gpus.source))
    if stated.instance is not None:
        facts = replace(facts, gpus=stated.gpus)
    if stated.microarchitecture is not None:
        # A CPU that a person names comes with its own features, not with those of the machine at hand.
        facts = replace(facts, cpu_id=None, cpu_name=None, features=stated.features, system=stated.system)
    return facts


_LABELS = {
    "system": "the system is",
    "macos": "the release of macOS is",
    "release": "the release is",
    "glibc": "the C library is",
    "microarchitecture": "the microarchitecture is",
    "features": "the CPU features are",
    "driver": "the driver is",
    "gpus": "the GPUs are",
    "instance": "the machine type is",
}


def _system(word: str, cpu: Cpu | None, catalog: Catalog, source: str) -> HostFacts:
    """The system and its release that words name, as a report does: x86_64, Ubuntu 22.04, macOS 14."""
    facts = scan(f"os: {word}", source, catalog)
    mac = facts.system is not None and facts.system.value.endswith("-darwin")
    if mac and not facts.macos and re.search(r"\s\d", word):
        known = ", ".join(one.macos for one in catalog.systems.values() if one.macos)
        raise NotKnown(f"unknown release of macOS in {word!r}", hint=f"known are {known}")
    if not (facts.system or facts.release) or unserved_system(word):
        hint = "x86_64 or aarch64; a release, such as Ubuntu 22.04 or macOS 14; windows for a wheel alone"
        raise NotKnown(f"unknown system {word!r}", hint=hint)
    if mac and cpu and facts.system == Fact("any-darwin", source):
        return replace(facts, system=Fact(f"{cpu.platform.removesuffix('-linux')}-darwin", source))
    return facts


def _driver(word: str, catalog: Catalog) -> DriverVersion:
    try:
        driver = DriverVersion.parse(word)
    except BadValue as error:
        raise Invalid(str(error), hint="the Driver Version that nvidia-smi prints") from error
    if driver.parts[0] < 20:
        toolkit = next((toolkit for version, toolkit in catalog.cuda.items() if str(version) == word), None)
        native = toolkit.native_driver if toolkit else None
        came = f"; CUDA {word} came with driver {native}" if native else ""
        hint = f"give the Driver Version that nvidia-smi prints{came}"
        raise Invalid(f"{word} is a CUDA release, not a driver", hint=hint)
    newest = max(toolkit.native_driver or toolkit.min_driver for toolkit in catalog.cuda.values())
    if driver.parts[0] > newest.parts[0] + MOST_NEWER:
        raise Invalid(
            f"there is no driver {word}: the newest that is known is {newest}",
            hint="give the Driver Version that nvidia-smi prints",
        )
    return driver


def _gpus(text: str, catalog: Catalog, source: str) -> Iterator[GpuFacts]:
    """`8x H100; sm89`: names or architectures, several with ; + , / & or the word and, counts before an x."""
    if text.strip().lower() in (*NO_GPU, "no", "-", "cpu", "0") or _in_cpu(text):
        return
    counts = list(_counted(text))
    if not counts:
        raise Invalid(f"{text!r} names no GPU", hint="for a machine without one, give none")
    for count, name in counts:
        if not 1 <= count <= MOST_GPUS:
            raise Invalid(f"{count} GPUs in one machine", hint=f"give 1 to {MOST_GPUS}, such as 8x {name}")
        yield from (_gpu(name, catalog, source) for _ in range(count))


def _counted(text: str) -> Iterator[tuple[int, str]]:
    for part in filter(None, map(str.strip, BETWEEN.split(text))):
        counted = re.fullmatch(r"([-+]?\d{1,9})\s*[x×*]\s*(.+)", part)
        yield (int(counted[1]), counted[2]) if counted else (1, part)


def names_gpus(word: str, catalog: Catalog) -> bool:
    """Whether a word names GPUs, a kind of machine, or that there is none: 8x H100 + L4, p4d.24xlarge."""
    known = all(is_product(name, catalog) for _, name in _counted(word))
    return known or word.lower() in NO_GPU or _in_cpu(word) or instance_of(word, catalog) is not None


def _in_cpu(text: str) -> bool:
    """Whether words name graphics in a CPU of Intel, which no build or wheel uses: Iris Xe, UHD 620."""
    plain = re.sub(r"(?i)\((?:r|tm)\)|[®™]", "", text).strip()
    return words("integrated").fullmatch(plain) is not None


def _gpu(name: str, catalog: Catalog, source: str) -> GpuFacts:
    try:
        sm = Sm.parse(name.lower())
    except BadValue:
        sm = None
    if sm in catalog.gpus or sm in catalog.retired:
        return GpuFacts(sm=fact_of(sm, source))
    if name.lower() in NO_GPU:
        raise Conflict(f"{name} stands alone: another GPU is given too", hint="leave one of them out")
    if product_of_name(name, catalog) is None:
        raise unknown_gpu(name, catalog)
    return GpuFacts(name=Fact(name, source))


def find_cpu_name(text: str, catalog: Catalog) -> str:
    """The catalog's name of a CPU that a person names: zen4, Zen 4, Sapphire Rapids, Graviton3."""
    cpu = find_cpu_by_name(text, catalog)
    if cpu is not None:
        return cpu.name
    system = unserved_system(text)
    if system:
        served = listed(sorted({isa.platform for isa in catalog.isas.values()}))
        raise NotKnown(f"{text} is {system}, which no build is for", hint=f"builds are for {served}")
    best = nearest(text, [*catalog.cpus, *(cpu.title for cpu in catalog.cpus.values())], NEAR_CPU)
    stem = re.match(r"[a-z]+", text.lower())
    alike = [name for name in catalog.cpus if stem and re.fullmatch(rf"{stem[0]}\d*", name)]
    hint = f"did you mean {best}? Or give" if best else "give"
    hint = f"there are {', '.join(alike)}; or give" if alike and not best else hint
    # No instruction set: what an unknown CPU runs beyond its system's baseline is for it to say.
    more = "its whole name, such as 'Ryzen 9 7950X', or its features, which are the flags of /proc/cpuinfo"
    raise NotKnown(f"unknown CPU {text!r}", hint=f"{hint} {more}")
