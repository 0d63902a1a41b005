"""The report of a choice: its rows, the machine in a line, and what no build serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from torchsmith.catalog import Catalog, Sm
from torchsmith.core.text import grouped, listed, shell_word, some_of
from torchsmith.host.cost import Cost
from torchsmith.host.facts import GpuFacts, HostFacts
from torchsmith.host.pick import Pick, missing_commands, why_idle
from torchsmith.host.resolve import Capability, known_isas, may_be
from torchsmith.host.wheels import WheelOffer

UNKNOWN_GPUS = "GPUs unknown: this is for the CPU alone (--gpu, or a report of nvidia-smi, names them)"
FEW = 3  # near misses that are shown


class CandidateRow(msgspec.Struct, frozen=True):
    """Builds that were not chosen, and why."""

    name: str
    why: str


Candidates = list[CandidateRow]


class BuildRow(msgspec.Struct, frozen=True, kw_only=True):
    """A build for this machine, and how to get it."""

    name: str
    torch: str  # the release
    isa: str  # the instruction set that its CPU code is compiled for
    gpus: Sequence[str]
    compiled_for: Sequence[str]
    idle: Sequence[str]  # GPUs that it leaves idle: it runs on the CPU alone
    reasons: Sequence[str]
    assumptions: Sequence[str]  # what must be true for it that is not known
    cost: Cost  # of building it
    # By tool what installs it, and of the first row what builds all rows together; only what can run here;
    # `missing` lists the dependencies that are in no cache.
    commands: dict[str, str]
    companions: Sequence[str] = ()  # the same cell in other packages
    verified: bool = False  # it was built from its recipe as it is now, and verified
    audit: Sequence[str] = ()  # findings of the audit in its recipe
    file: str = ""  # the torchsmith.toml to which a new one can be added; empty: none


class PickReport(msgspec.Struct, frozen=True, kw_only=True):
    """The choice for a machine, what would suit better, and PyTorch's own wheel (`idle`: GPUs unused)."""

    FORMAT: ClassVar = 8
    HAS_SETS: ClassVar = True
    host: HostFacts
    candidates: str  # whose matrix they are from
    matrix: str  # the same in a word or two; empty: all possible builds
    in_workspace: bool  # it is a torchsmith.toml
    machine: str  # in a line
    gpus_known: bool
    served: bool  # a wheel or build runs here and uses its GPUs, if it has any
    workload: str
    workload_why: str
    choice: Sequence[BuildRow]
    unserved: Sequence[Sm]
    notes: Sequence[str]  # about GPUs that the choice leaves out
    missing: Sequence[str]  # what no build serves, and why
    nearest: Sequence[CandidateRow]
    impossible: Sequence[CandidateRow]  # what would suit and cannot be built
    create: Sequence[BuildRow]  # builds that would have to be added
    wheels: Sequence[WheelOffer]  # PyTorch's own, one for each maker of the machine's GPUs
    no_wheel: str  # why there is none; empty: there is one, or the reason is not one thing alone
    build_first: bool  # in the answer: it is verified, or wheels need more than is usual on the system
    not_chosen: Sequence[CandidateRow]  # other builds that run
    no_tools: bool  # it is this machine, and neither Nix nor Flox is installed


def machine_line(answer: Pick, catalog: Catalog, *, own_cpu: bool) -> str:
    """Return the machine in one line; `own_cpu`: its CPU is this machine's, and other facts are given."""
    machine, facts = answer.host, answer.facts
    labels = (
        [gpu.label if gpu.name or gpu.sm else "GPU unknown" for gpu in facts.gpus.value] if facts.gpus else []
    )
    labels += facts.non_nvidia_gpus.value if facts.non_nvidia_gpus else ()
    gpus = [
        f"{labels.count(label)} x {label}" if labels.count(label) > 1 else label
        for label in dict.fromkeys((*labels, *dict(machine.targets)))
    ]
    isas = known_isas(machine.features, machine.system, catalog)
    kind = catalog.cpus.get(machine.kind)
    if machine.features is None:
        cpu = f"CPU {kind.title}" if kind else "CPU unknown"
    elif not isas and machine.system is None:
        cpu = "CPU known in part"
    else:
        cpu = f"CPU runs {', '.join(isas)}" if isas else "CPU runs none of the instruction sets here"
        cpu = f"this machine's {cpu} (--cpu describes another)" if own_cpu else cpu
    parts = [
        _system_title(machine),
        cpu,
        ", ".join(gpus) or ("no NVIDIA GPU" if facts.gpus else UNKNOWN_GPUS),
    ]
    if machine.sms:
        parts.append(machine.driver.title if machine.driver else "driver unknown (--driver states it)")
    if facts.python:
        parts.append(f"Python {facts.python.value}")
    return "; ".join(parts)


def _system_title(machine: Capability) -> str:
    macos = f"macOS {machine.macos}".strip()
    if machine.system == "any-darwin":
        return macos
    return f"{machine.system or 'system unknown'}{f' ({macos})' if machine.macos else ''}"


def missing_builds(answer: Pick, catalog: Catalog) -> tuple[list[str], Candidates, Candidates]:
    """Return what no build serves and why, the nearest builds, and those that cannot be built."""
    machine, unserved = answer.host, answer.choice.unserved
    systems = sorted({isa.platform for isa in catalog.isas.values()})
    if not any(may_be(machine.system, system) for system in systems):
        if (machine.system or "").endswith("-windows"):
            there = f"torchsmith pick there, or with --system {str(machine.system).partition('-')[0]}"
            return [f"builds do not run on Windows, but in its WSL2: {there}"], [], []
        return [f"no build is for {machine.system}, but for {listed(systems, 'or')}"], [], []
    if answer.has_variant and not unserved and not machine.unknown_gpus:
        return [], [], []
    unbuildable = [
        CandidateRow(cell.variant.name, "; ".join(map(str, cell.reasons))) for cell in answer.unbuildable
    ]
    if not answer.ranking.fits and not answer.ranking.misses:
        return [f"no candidate has {listed(map(str, answer.stack))}"], [], unbuildable
    if machine.unknown_gpus and not unserved:
        return _unknown_gpus(answer), [], []
    if not unserved:
        return ["no candidate runs on the machine"], _nearest(answer), unbuildable
    retired = [sm for sm in unserved if sm in catalog.retired]
    texts = [f"{_title(sm, catalog)}: {catalog.retired[sm].ended}" for sm in retired]
    if machine.unknown_gpus and not answer.has_variant:
        texts += _unknown_gpus(answer)
    known = [sm for sm in unserved if sm not in retired and sm in catalog.gpus]
    texts += [
        f"{sm} is not in the catalog: no build is known to run there"
        for sm in unserved
        if sm not in (*known, *retired)
    ]
    if remaining := [_title(sm, catalog) for sm in known]:
        make = ", but a build that can is possible" if answer.wanted else ""
        texts.append(f"no candidate can use {', '.join(remaining)} on the machine{make}")
        return texts, _nearest(answer), unbuildable
    return texts, [], []


def notes_on(answer: Pick, catalog: Catalog, *, reported: bool) -> list[str]:
    """Return notes about GPUs that the choice leaves out; if a report describes the machine, also what to run
    there for the facts that it does not state."""
    machine, texts = answer.host, []
    if answer.idle_others and not answer.wanted:
        texts.append(why_idle(answer.idle_others, catalog))
    if reported and (commands := missing_commands(machine)):
        texts.append(f"for what the report does not say, add what these print there: {'; '.join(commands)}")
    return texts


def _unknown_gpus(answer: Pick) -> list[str]:
    """Return which GPUs are of unknown architecture, and the lines that name them."""
    notes = [
        *(str(note) for note in answer.facts.notes if note.code == "gpu"),
        "for the CPU only: --gpu none",
    ]
    names = [name for name in answer.host.unknown_gpus if name != GpuFacts().label]
    gpus = answer.facts.gpus.value if answer.facts.gpus else ()
    if alternatives := {gpu.either.value: None for gpu in gpus if gpu.either and gpu.sm is None}:
        every = shell_word(" + ".join(name for names in alternatives for name in names))
        return [f"which GPU is it, {', '.join(names)}? choose by --gpu; if it has all: --gpu {every}", *notes]
    which = (
        f"the architecture of {', '.join(names)} is unknown"
        if names
        else "which GPU it has, if any, is unknown"
    )
    return [f"{which}: give it, as in --gpu 'RTX 4090' or --gpu sm89", *notes]


def _nearest(answer: Pick) -> list[CandidateRow]:
    """Return the nearest builds, equal ones in a row; if only the driver is too old, the first."""
    misses = grouped(("; ".join(map(str, miss.reasons)), miss.variant.name) for miss in answer.near)
    by_driver = answer.near and {reason.code for reason in answer.near[0].reasons} == {"driver"}
    return [CandidateRow(some_of(names), why) for why, names in misses.items()][: 1 if by_driver else FEW]


def _title(sm: Sm, catalog: Catalog) -> str:
    """Return an architecture with its title."""
    known, old = catalog.gpus.get(sm), catalog.retired.get(sm)
    title = known.title if known else old.generation if old else ""
    return f"{sm} ({title})" if title else str(sm)
