"""`torchsmith host`: what this machine, or one that reports describe, is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torchsmith.catalog import Catalog
from torchsmith.cli.console import columns, next_step, print_json, warn
from torchsmith.cli.machine_options import MachineOptions
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.host.facts import GpuFacts, HostFacts
from torchsmith.host.resolve import capability_of, known_isas
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith host --json"


@dataclass(frozen=True, kw_only=True)
class HostRequest:
    """Which machine: this one, or one that reports or names describe."""

    machine: MachineOptions = field(default_factory=MachineOptions)
    workspace: WorkspaceOption = None


def host(request: HostRequest) -> HostFacts:
    """What is known of a machine, each fact with where it came from."""
    return request.machine.facts(open_workspace(request.workspace).catalog)


def run(*, request: HostRequest, json: JsonOption = False) -> None:
    """Show CPU, GPUs and driver of this machine, and the source of each fact.

    torchsmith pick --from FILE reads the JSON on another machine.
    """
    facts = host(request)
    if json:
        print_json(facts, sort=True)
    else:
        print_host(facts, open_workspace(request.workspace).catalog)
        next_step("pick", *request.machine.arguments(), workspace=request.workspace)


def print_host(facts: HostFacts, catalog: Catalog) -> None:
    """Facts with their sources on stdout, notes on stderr."""
    columns(list(_rows(facts, catalog)), ("cyan", "", "dim"))
    for note in facts.notes:
        warn(f"note: {note}")


def _rows(facts: HostFacts, catalog: Catalog) -> Iterator[tuple[str, str, str]]:
    stated = {"system": facts.system, "OS": facts.os, "glibc": facts.glibc, "CPU": facts.cpu_name}
    for label, fact in stated.items():
        if fact:
            yield label, fact.value, fact.source
    if facts.microarchitecture:
        cpu = catalog.cpus.get(facts.microarchitecture.value)
        title = cpu.title if cpu else facts.microarchitecture.value
        yield "microarchitecture", title, facts.microarchitecture.source
    if facts.features:
        isas = known_isas(facts.features.value, capability_of(facts).system, catalog)
        yield "runs builds for", ", ".join(isas) or "none of the instruction sets here", facts.features.source
    if facts.memory_mib:
        yield "memory", f"{facts.memory_mib.value / 1024:.0f} GiB", facts.memory_mib.source
    if facts.driver:
        yield "NVIDIA driver", str(facts.driver.value), facts.driver.source
    if facts.gpus:
        yield from (_gpu_row(gpu, facts.gpus.source) for gpu in facts.gpus.value)
    if facts.others:
        targets = facts.targets.value if facts.targets else {}
        names = (", ".join(filter(None, (name, targets.get(name)))) for name in facts.others.value)
        yield from (("GPU", name, facts.others.source) for name in names)
    elif facts.gpus is None:
        yield "GPUs", "nothing is known of them", ""
    elif not facts.gpus.value:
        yield "GPUs", "no NVIDIA GPU", facts.gpus.source


def _gpu_row(gpu: GpuFacts, source: str) -> tuple[str, str, str]:
    facts = [gpu.label]
    if gpu.sm and gpu.name:
        facts.append(str(gpu.sm.value))
    if gpu.sm is None:
        facts.append("architecture unknown")
    if gpu.memory_mib:
        facts.append(f"{gpu.memory_mib.value / 1024:.0f} GiB")
    if gpu.mig and gpu.mig.value:
        facts.append("split by MIG (each process sees one instance; the build is the same)")
    where = gpu.sm.source if gpu.sm and gpu.sm.source != source else source
    return "GPU", ", ".join(facts), where
