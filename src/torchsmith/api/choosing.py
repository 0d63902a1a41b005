"""Which build suits a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.api.fields import Option
from torchsmith.api.host_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.api.options import ProfileOption, Selectors, WorkspaceOption
from torchsmith.catalog import Catalog, Sm
from torchsmith.catalog.gpu_names import OR
from torchsmith.core.problem import Conflict, Incomplete, by_name
from torchsmith.core.text import grouped, some_of
from torchsmith.host import pick as host
from torchsmith.host.bill import Bill
from torchsmith.host.commands import Environment, build_commands, flox_manifest, install_command, stand_here
from torchsmith.host.facts import GpuFacts, HostFacts
from torchsmith.host.rank import Compatible, why_after
from torchsmith.host.resolve import Capability, known_isas, may_be
from torchsmith.host.stock import Stock, rocm_wheel, stock_wheel
from torchsmith.matrix import Cell, Variant
from torchsmith.matrix.describe import describe, why_not_newer
from torchsmith.workspace.load import Workspace, open_workspace

FEW = 3  # findings and near misses that a person reads


@dataclass(frozen=True, kw_only=True)
class PickRequest:
    """Which variant suits a machine: this one, or one that reports or names describe."""

    selectors: Selectors = ()
    machine: MachineOptions = field(default_factory=MachineOptions)
    workload: WorkloadOption = "general"
    package: PackagesOption = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    org: Annotated[
        str, Option("The Flox organisation that publishes; by default `org` of torchsmith.toml.")
    ] = ""
    explain: Annotated[bool, Option("Explain for every candidate why it was not chosen.")] = False

    def opened(self) -> Workspace:
        """The workspace whose variants are candidates; without one, all that can be built."""
        return open_workspace(self.workspace, self.profile, alone="every")


class ChosenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variant for this machine, and how to have it."""

    name: str
    gpus: Sequence[str]
    compiled_for: Sequence[str]
    idle: Sequence[str]  # GPUs that it leaves idle: it runs on the CPU alone
    reasons: Sequence[str]
    provided: Sequence[str]
    unproved: Sequence[str]
    older: str  # what keeps it from newer releases of torch
    isas: Sequence[str]  # instruction sets of candidates that run here, the best first
    isa_why: str  # why a lesser one than the CPU's widest was chosen; empty where it was not
    cost: Bill  # of building it
    companions: Sequence[str]  # the same cell in other packages
    commands: dict[str, str]  # what installs and builds it, by tool; what cannot run here is not among them
    audit: Sequence[str]  # what the audit has against the recipe that lies here
    manifest: str  # for somebody who installs it with Flox; empty where no organisation is known


class WheelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that PyTorch publishes for this machine, and what one loses with it."""

    torch: str
    cuda: str
    rocm: str
    gpu: str  # what it runs on besides CUDA and ROCm
    command: str
    losses: Sequence[str]
    provided: Sequence[str]
    unproved: str


class CreateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that would suit better, and the steps to it."""

    name: str
    provided: Sequence[str]
    unproved: Sequence[str]
    cost: Bill
    commands: dict[str, str]
    file: str  # the torchsmith.toml to which it can be added; empty: none


class CandidateRow(msgspec.Struct, frozen=True):
    """Variants that were not chosen, and why."""

    name: str
    why: str


Candidates = list[CandidateRow]


class PickReport(msgspec.Struct, frozen=True, kw_only=True):
    """The choice for a machine, what would suit better, and what serves until then."""

    FORMAT: ClassVar = 2
    host: HostFacts
    machine: str  # in a line
    gpus_known: bool
    served: bool  # a variant runs here, and every GPU has one that uses it
    workload: str
    workload_why: str
    choice: Sequence[ChosenRow]
    unserved: Sequence[Sm]
    bundled: Sequence[str]  # packages without a cell of their own that the chosen recipe brings
    by_driver: dict[str, Sequence[str]]  # what a driver from this one on gets instead, where it is unknown
    by_system: dict[str, Sequence[str]]  # what another system gets, where it is unknown
    compiled_for_one: dict[str, str]  # for a GPU that runs compatible code: the variant for it alone
    remarks: Sequence[str]  # on GPUs that the choice leaves out
    missing: Sequence[str]  # what no variant serves, and why
    nearest: Sequence[CandidateRow]
    impossible: Sequence[CandidateRow]  # what would suit and cannot be built
    create: Sequence[CreateRow]
    missing_cells: dict[str, str]  # what to create, with other packages, and the line of each
    wheels: Sequence[WheelRow]  # one for each maker of GPUs that are there
    others: Sequence[CandidateRow]  # with --explain
    no_tools: bool  # neither Nix nor Flox is here


def pick(request: PickRequest | None = None) -> PickReport:
    """Rank the variants for a machine, and choose. Raises a Problem for a word that nobody knows."""
    request = request or PickRequest()
    opened = request.opened()
    catalog = opened.catalog
    facts = request.machine.facts(catalog)
    # Of a matrix of ours torch's part is enough.
    whole = bool(opened.root or request.selectors or request.package)
    cells = opened.select(request.selectors).cells if whole else opened.cells_of(catalog.torch)
    workload = by_name("workload", request.workload, catalog.workloads)
    has = None if whole else opened.has
    answer = host.pick(facts, cells, catalog, workload, request.package, has, misses=request.explain)
    if answer.host.conflict:
        raise Conflict(
            answer.host.conflict, hint="the product decides the system: drop the option that contradicts it"
        )
    here = stand_here(opened.root, request.org or opened.settings.org)
    missing, nearest, impossible = _missing(answer, catalog)
    return PickReport(
        host=answer.facts,
        machine=_machine(answer, catalog, own_cpu=request.machine.mixes(answer.facts)),
        gpus_known=answer.host.sms is not None,
        served=answer.served,
        workload=workload.name,
        workload_why=workload.why,
        choice=[_chosen(assigned, answer, catalog, here) for assigned in answer.choice.variants],
        unserved=answer.choice.unserved,
        bundled=answer.bundled,
        by_driver={str(driver): names for driver, names in answer.by_driver},
        by_system=dict(answer.by_system),
        compiled_for_one={str(sm): fit.variant.name for sm, fit in answer.exact},
        remarks=[*_remarks(answer, catalog), *(_to_run(answer.host) if request.machine.from_ else ())],
        missing=missing,
        nearest=nearest,
        impossible=impossible,
        create=[_wanted(fit, answer, here, opened) for fit in answer.wanted],
        missing_cells={cell.name: cell.line for cell in answer.missing_cells(catalog)},
        wheels=[_wheel_row(stock) for stock in stock_wheels(answer.host, catalog)],
        others=[*_others(answer, catalog)] if request.explain else (),
        no_tools=not here.nix and not here.flox,
    )


def _machine(answer: host.Pick, catalog: Catalog, *, own_cpu: bool) -> str:
    """The machine in a line; `own_cpu`: its CPU is that of this machine, other facts are stated."""
    machine, facts = answer.host, answer.facts
    labels = [gpu.label for gpu in facts.gpus.value] if facts.gpus else []
    labels += facts.others.value if facts.others else ()
    gpus = [
        f"{labels.count(label)} x {label}" if labels.count(label) > 1 else label
        for label in dict.fromkeys((*labels, *dict(machine.targets)))
    ]
    isas = known_isas(machine.features, machine.system, catalog)
    if machine.features is None:
        cpu = "CPU unknown"
    elif not isas and (machine.cut or machine.system is None):
        cpu = "CPU known in part"
    else:
        cpu = f"CPU runs {', '.join(isas)}" if isas else "CPU runs none of the instruction sets here"
        cpu = f"this machine's {cpu} (--cpu describes another)" if own_cpu else cpu
    parts = [
        _system(machine) or "system unknown",
        cpu,
        ", ".join(gpus) or ("no NVIDIA GPU" if facts.gpus else "GPUs unknown"),
    ]
    if machine.sms:
        parts.append(f"driver {machine.driver or 'unknown'}")
    return "; ".join(parts)


def _chosen(assigned: host.Assigned, answer: host.Pick, catalog: Catalog, here: Environment) -> ChosenRow:
    fit, variant = assigned.fit, assigned.fit.variant
    line = catalog.lines.get(fit.cell.line)
    build = line.build_for(variant.toolkit) if line else None
    # A cell whose packages come from Flox' catalog has no nixpkgs for Nix.
    tools = msgspec.structs.replace(here, nix=False) if build and build.style == "flox" else here
    install = install_command(variant, here.org)
    companions = tuple(name for name in answer.companions if name.endswith(variant.cell))
    runnable = {candidate.variant.isa for candidate in answer.ranking.fits}
    whole = answer.host.features is not None and not answer.host.cut
    platform = catalog.isas[variant.isa].platform
    return ChosenRow(
        name=variant.name,
        gpus=[*map(str, assigned.gpus)],
        compiled_for=[*map(str, fit.exact)],
        idle=[*map(str, fit.idle)] if not fit.used else (),
        reasons=fit.reasons,
        provided=[*map(str, fit.provided)],
        unproved=_not_proved(fit, catalog),
        older=_why_older(fit.cell, catalog),
        isas=[isa for isa in answer.workload.isas if isa in runnable] if whole else (),
        isa_why=_why_isa(variant, answer, catalog) if whole else "",
        cost=answer.cost(variant, catalog),
        companions=companions,
        commands=({"install": install} if install else {})
        | build_commands(variant, tools, also=answer.also(variant)),
        audit=_audit_findings(here.recipe(variant), here),
        manifest=flox_manifest(variant, companions, here.org, platform) if here.org else "",
    )


def _wanted(fit: Compatible, answer: host.Pick, here: Environment, opened: Workspace) -> CreateRow:
    return CreateRow(
        name=fit.variant.name,
        provided=[*map(str, fit.provided)],
        unproved=_not_proved(fit, opened.catalog),
        cost=answer.cost(fit.variant, opened.catalog),
        commands=build_commands(fit.variant, here, also=answer.also(fit.variant), included=False),
        file=opened.adds(fit.variant),
    )


def _others(answer: host.Pick, catalog: Catalog) -> Iterator[CandidateRow]:
    """Every other candidate and why not."""
    chosen = [assigned.fit for assigned in answer.choice.variants]
    for fit in answer.ranking.fits:
        if fit not in chosen:
            why = f"runs, but {why_after(fit, chosen[0], catalog, answer.workload)}" if chosen else "runs"
            yield CandidateRow(fit.variant.name, why)
    for miss in answer.ranking.misses:
        yield CandidateRow(miss.variant.name, "; ".join(map(str, miss.reasons)))


def _why_older(cell: Cell, catalog: Catalog) -> str:
    """What keeps a cell from newer releases of torch; empty where its own is the newest."""
    line = catalog.lines.get(cell.line)
    why = why_not_newer(cell.variant, line, catalog) if line else ""
    return f"torch {line.torch}; {why} (torchsmith line list)" if line and why else ""


def _why_isa(variant: Variant, answer: host.Pick, catalog: Catalog) -> str:
    """That another workload would prefer a wider instruction set of the CPU; empty where none does."""
    runnable = {fit.variant.isa for fit in answer.ranking.fits}
    known = known_isas(answer.host.features, answer.host.system, catalog)
    widest = next((isa for isa in known if isa in runnable), variant.isa)
    for name, workload in catalog.workloads.items():
        if next((isa for isa in workload.isas if isa in (widest, variant.isa)), "") == widest != variant.isa:
            return f"{variant.isa} suits {answer.workload.name} use; --workload {name} prefers {widest}"
    return ""


def _not_proved(fit: Compatible, catalog: Catalog) -> list[str]:
    """What nobody proved of a cell, as `show` lists it."""
    claims = map(str, fit.unproved)
    return list(dict.fromkeys((*claims, *describe(fit.variant, catalog, fit.cell.line).unproved)))


def _audit_findings(recipe: Path, here: Environment) -> list[str]:
    """What the audit has against a recipe that lies in the workspace: errors and warnings, the first few."""
    if here.folder is None or not recipe.exists():
        return []
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import audit

    serious = audit((recipe,), Path(here.folder), jobs=1).of(Severity.ERROR, Severity.WARNING)
    findings = [f"{finding.rule} {finding.message}" for finding in serious]
    if len(findings) <= FEW:
        return findings
    return [*findings[: FEW - 1], f"{len(findings) - FEW + 1} more: torchsmith audit"]


def _system(machine: Capability) -> str:
    """The system in words: of a Mac its CPU may be unknown."""
    return (machine.system or "").replace("any-darwin", "macOS")


def _missing(answer: host.Pick, catalog: Catalog) -> tuple[list[str], Candidates, Candidates]:
    """What no variant serves and why; the variants that come nearest; those that cannot be built."""
    machine, unserved = answer.host, answer.choice.unserved
    systems = sorted({isa.platform for isa in catalog.isas.values()})
    if not any(may_be(machine.system, system) for system in systems):
        wsl = "; Windows runs them in WSL2, for which --system x86_64 picks"
        wsl = wsl if (machine.system or "").endswith("-windows") else ""
        return (
            [f"no variant runs on {_system(machine)}: all of them are for {' or '.join(systems)}{wsl}"],
            [],
            [],
        )
    if answer.has_variant and not unserved and not machine.unknown_gpus:
        return [], [], []
    barred = [CandidateRow(left.variant.name, "; ".join(map(str, left.reasons))) for left in answer.barred]
    if not answer.ranking.fits and not answer.ranking.misses:
        return [f"no candidate has {' and '.join(map(str, answer.stack))}"], [], barred
    if machine.unknown_gpus and not unserved:
        return _unknown_gpus(answer), [], []
    if not unserved:
        return ["no candidate runs on this machine"], _nearest(answer), barred
    retired = [sm for sm in unserved if sm in catalog.retired]
    texts = [f"{_title(sm, catalog)}: {catalog.retired[sm].ended}" for sm in retired]
    if machine.unknown_gpus and not answer.has_variant:
        texts += _unknown_gpus(answer)
    if left := [_title(sm, catalog) for sm in unserved if sm not in retired]:
        texts.append(f"no candidate can use {', '.join(left)} on this machine")
        return texts, _nearest(answer), barred
    return texts, [], []


def _remarks(answer: host.Pick, catalog: Catalog) -> list[str]:
    """GPUs that the choice leaves out."""
    machine, texts = answer.host, []
    if answer.idle_others:
        texts.append(host.why_idle(answer.idle_others, machine, catalog))
    elif machine.sms is None and answer.has_variant and not machine.archs:
        texts.append("the GPUs are unknown: this is for the CPU alone; add a report of nvidia-smi, or --gpu")
    return texts


def _to_run(machine: Capability) -> list[str]:
    commands = host.missing_commands(machine)
    return (
        [f"for what the report does not say, add what these print there: {'; '.join(commands)}"]
        if commands
        else []
    )


def _unknown_gpus(answer: host.Pick) -> list[str]:
    """GPUs that are there and that nobody understood: which, and the line that shows them."""
    names = [name for name in answer.host.unknown_gpus if name != GpuFacts().label]
    if any(OR in name for name in names):
        return [f"which GPU is it, {', '.join(names)}? choose by --gpu", *_gpu_notes(answer)]
    which = (
        f"the architecture of {', '.join(names)} is unknown"
        if names
        else "there is a GPU, but its model is unknown"
    )
    return [
        f"{which}: give it, as in --gpu 'RTX 4090' or --gpu sm89",
        *_gpu_notes(answer),
    ]


def _gpu_notes(answer: host.Pick) -> list[str]:
    return [*(str(note) for note in answer.facts.notes if note.gpu), "for the CPU only: --gpu none"]


def _nearest(answer: host.Pick) -> list[CandidateRow]:
    """What comes nearest, those alike in a row; of builds that a newer driver would run, the first."""
    misses = grouped(("; ".join(map(str, miss.reasons)), miss.variant.name) for miss in answer.near)
    by_driver = answer.near and {reason.code for reason in answer.near[0].reasons} == {"driver"}
    return [CandidateRow(some_of(names), why) for why, names in misses.items()][: 1 if by_driver else FEW]


def _title(sm: Sm, catalog: Catalog) -> str:
    """An architecture with the words for it."""
    known, old = catalog.gpus.get(sm), catalog.retired.get(sm)
    title = known.title if known else old.generation if old else ""
    return f"{sm} ({title})" if title else str(sm)


def stock_wheels(machine: Capability, catalog: Catalog) -> list[Stock]:
    """PyTorch's own wheels for a machine: one for each maker of its GPUs, else the one for the CPU."""
    rocm, stock = rocm_wheel(machine, catalog), stock_wheel(machine, catalog)
    return [wheel for wheel in (None if rocm and not machine.sms else stock, rocm) if wheel]


def _wheel_row(stock: Stock) -> WheelRow:
    return WheelRow(
        torch=stock.wheel.torch,
        cuda=str(stock.wheel.cuda or ""),
        rocm=stock.wheel.rocm,
        gpu=stock.wheel.gpu,
        command=stock.wheel.command,
        losses=stock.losses,
        provided=stock.provided,
        unproved=stock.wheel.unproved,
    )


def first_manifest(report: PickReport) -> str:
    """The manifest of the first choice; a Problem where no organisation is known."""
    manifests = [chosen.manifest for chosen in report.choice[:1]]
    if not all(manifests):
        hint = 'give --org, or write org = "..." into torchsmith.toml'
        raise Incomplete("no Flox organisation to install from is known", hint=hint)
    return "".join(manifests)


def write_missing(path: Path, report: PickReport, request: PickRequest) -> None:
    """Write the missing cells as a torchsmith.toml."""
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import read_as

    catalog = request.opened().catalog
    cells = [Cell(Variant.parse(name, catalog), line) for name, line in report.missing_cells.items()]
    write_matrix(path, cells, "What torchsmith pick found missing.", read_as)
