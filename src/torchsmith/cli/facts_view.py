"""The facts about a machine with their sources, as `pick --facts` prints them."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.catalog import Catalog
from torchsmith.cli.console import columns, warn
from torchsmith.host.facts import GpuFacts, HostFacts
from torchsmith.host.resolve import capability_of, known_isas


def print_facts(facts: HostFacts, catalog: Catalog) -> None:
    """Print the facts with their sources, and notes on stderr."""
    columns(list(_rows(facts, catalog)), ("cyan", "", "dim"))
    for note in facts.notes:
        warn(f"note: {note}")


def _rows(facts: HostFacts, catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    stated = (("system", facts.system), ("release", facts.release), ("macOS", facts.macos))
    more = (("glibc", facts.glibc), ("CPU", facts.cpu_name), ("Python", facts.python))
    for label, fact in (*stated, *more):
        if fact:
            yield label, str(fact.value), fact.source
    if facts.microarchitecture:
        cpu = catalog.cpus.get(facts.microarchitecture.value)
        title = cpu.title if cpu else facts.microarchitecture.value
        yield "microarchitecture", title, facts.microarchitecture.source
    if facts.features:
        isas = known_isas(facts.features.value, capability_of(facts).system, catalog)
        yield "runs builds for", ", ".join(isas) or "none of the instruction sets here", facts.features.source
    if facts.cores:
        yield "CPUs", str(facts.cores.value), facts.cores.source
    if facts.driver:
        yield "NVIDIA driver", str(facts.driver.value), facts.driver.source
    if facts.gpus:
        yield from (_gpu_row(gpu, facts.gpus.source) for gpu in facts.gpus.value)
    if facts.non_nvidia_gpus and facts.non_nvidia_gpus.value:
        targets = facts.targets.value if facts.targets else {}
        names = (", ".join(filter(None, (name, targets.get(name)))) for name in facts.non_nvidia_gpus.value)
        yield from (("GPU", name, facts.non_nvidia_gpus.source) for name in names)
    elif facts.gpus is None:
        yield "GPUs", "unknown", ""
    elif not facts.gpus.value:
        yield "GPUs", "no NVIDIA GPU", facts.gpus.source


def _gpu_row(gpu: GpuFacts, source: str) -> tuple[str, str, str]:
    facts = [gpu.label]
    if gpu.sm and gpu.name:
        facts.append(str(gpu.sm.value))
    if gpu.sm is None:
        facts.append("architecture unknown")
    where = gpu.sm.source if gpu.sm and gpu.sm.source != source else source
    return "GPU", ", ".join(facts), where
