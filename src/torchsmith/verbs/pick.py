"""`torchsmith pick`: which variant suits a machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog, Sm
from torchsmith.catalog.gpu_names import OR
from torchsmith.cli.console import columns, command, exit_if, paint, print_commands, print_json, warn, write
from torchsmith.cli.fields import Option
from torchsmith.cli.machine_options import MachineOptions, PackagesOption, WorkloadOption
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.request import Request
from torchsmith.core.problem import Conflict, Incomplete, by_name
from torchsmith.core.text import grouped, some_of
from torchsmith.host import pick as host
from torchsmith.host.commands import (
    Environment,
    build_commands,
    detect_environment,
    flox_manifest,
    install_command,
)
from torchsmith.host.cost import Cost
from torchsmith.host.facts import GpuFacts, HostFacts
from torchsmith.host.rank import Compatible, why_after
from torchsmith.host.resolve import Capability, capability_of, known_isas, may_be
from torchsmith.host.stock import Stock, rocm_wheel, stock_wheel
from torchsmith.matrix import Cell, Variant
from torchsmith.matrix.describe import describe
from torchsmith.matrix.select import is_product
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"
FEW = 3  # findings, near misses and notes that are shown


@dataclass(frozen=True, kw_only=True)
class PickRequest(Request):
    """Which variant suits a machine: this one, or one that reports or options describe."""

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
        """Return the workspace whose variants are candidates; without one, all that can be built."""
        return open_workspace(self.workspace, self.profile, alone="every")


class ChosenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variant for this machine, and how to get it."""

    name: str
    gpus: Sequence[str]
    compiled_for: Sequence[str]
    idle: Sequence[str]  # GPUs that it leaves idle: it runs on the CPU alone
    reasons: Sequence[str]
    assumptions: Sequence[str]  # what must be true for it that is not known
    unproved: Sequence[str]
    older: str  # what keeps it from newer releases of torch
    isas: Sequence[str]  # instruction sets of candidates that run here, the best first
    isa_why: str  # why a lesser one than the CPU's widest was chosen; otherwise empty
    cost: Cost  # of building it
    companions: Sequence[str]  # the same cell in other packages
    commands: dict[
        str, str
    ]  # what installs and builds it, by tool; commands that cannot run here are left out
    audit: Sequence[str]  # findings of the audit in its recipe
    manifest: str  # of a Flox environment that installs it; empty if no organisation is known


class WheelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that PyTorch publishes for this machine, and its drawbacks."""

    torch: str
    cuda: str
    rocm: str
    gpu: str  # what it runs on besides CUDA and ROCm
    command: str
    losses: Sequence[str]
    assumptions: Sequence[str]
    unproved: str


class CreateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that would suit better, and the steps to it."""

    name: str
    assumptions: Sequence[str]  # what must be true for it that is not known
    unproved: Sequence[str]
    cost: Cost
    commands: dict[str, str]
    file: str  # the torchsmith.toml to which it can be added; empty: none


class CandidateRow(msgspec.Struct, frozen=True):
    """Variants that were not chosen, and why."""

    name: str
    why: str


Candidates = list[CandidateRow]


class PickReport(msgspec.Struct, frozen=True, kw_only=True):
    """The choice for a machine, what would suit better, and what to use until then."""

    FORMAT: ClassVar = 3
    host: HostFacts
    candidates: str  # whose matrix they are from
    machine: str  # in a line
    gpus_known: bool
    served: bool  # a variant runs here, and every GPU has one that uses it
    workload: str
    workload_why: str
    choice: Sequence[ChosenRow]
    unserved: Sequence[Sm]
    bundled: Sequence[str]  # packages without a cell of their own that the chosen recipe brings
    by_driver: dict[str, Sequence[str]]  # if the driver is unknown: what this one or a newer one gets instead
    by_system: dict[str, Sequence[str]]  # if the system is unknown: what another one gets
    compiled_for_one: dict[str, str]  # for a GPU that runs compatible code: the variant for it alone
    notes: Sequence[str]  # about GPUs that the choice leaves out
    missing: Sequence[str]  # what no variant serves, and why
    nearest: Sequence[CandidateRow]
    impossible: Sequence[CandidateRow]  # what would suit and cannot be built
    create: Sequence[CreateRow]
    missing_cells: dict[str, str]  # what to create, with other packages, and the line of each
    wheels: Sequence[WheelRow]  # PyTorch's own, one for each maker of the machine's GPUs
    not_chosen: Sequence[CandidateRow]  # with --explain
    no_tools: bool  # neither Nix nor Flox is installed


def pick(request: PickRequest | None = None) -> PickReport:
    """Rank the variants for a machine, and choose. Raises a Problem for an unknown word."""
    request = request or PickRequest()
    opened = request.opened()
    catalog = opened.catalog
    products = tuple(word for word in request.selectors if is_product(word, catalog))
    if products:  # a product among the selectors is the machine's GPU
        selectors = tuple(word for word in request.selectors if word not in products)
        machine = replace(request.machine, gpu=(*request.machine.gpu, *products))
        request = replace(request, selectors=selectors, machine=machine)
    facts = request.machine.facts(catalog)
    # Of a built-in matrix, the cells of torch are enough.
    complete = bool(opened.root or request.selectors or request.package)
    cells = opened.select(request.selectors).cells if complete else opened.cells_of(catalog.torch)
    workload = by_name("workload", request.workload, catalog.workloads)
    has = None if complete else opened.has
    answer = host.pick(facts, cells, catalog, workload, request.package, has, misses=request.explain)
    if answer.host.conflict:
        hint = "the product decides the system: drop the option that contradicts it"
        raise Conflict(answer.host.conflict, hint=hint)
    here = detect_environment(opened.root, request.org or opened.settings.org)
    missing, nearest, impossible = _missing(answer, catalog)
    return PickReport(
        host=answer.facts,
        candidates=f"candidates: the variants of {opened.source.name}"
        if opened.root
        else f"candidates: profile {opened.profile} (there is no torchsmith.toml here)",
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
        notes=[*_notes(answer, catalog), *(_to_run(answer.host) if request.machine.from_ else ())],
        missing=missing,
        nearest=nearest,
        impossible=impossible,
        create=[_wanted(fit, answer, here, opened) for fit in answer.wanted],
        missing_cells={cell.name: cell.line for cell in answer.missing_cells(catalog)},
        wheels=[_wheel_row(stock) for stock in stock_wheels(answer.host, catalog)],
        not_chosen=[*_not_chosen(answer, catalog)] if request.explain else (),
        no_tools=not here.nix and not here.flox,
    )


def pick_facts(request: PickRequest | None = None) -> HostFacts:
    """Return what is known about the machine, each fact with its source."""
    request = request or PickRequest()
    return request.machine.facts(request.opened().catalog)


def _machine(answer: host.Pick, catalog: Catalog, *, own_cpu: bool) -> str:
    """Return the machine in one line; `own_cpu`: its CPU is this machine's, and other facts are given."""
    machine, facts = answer.host, answer.facts
    labels = [gpu.label for gpu in facts.gpus.value] if facts.gpus else []
    labels += facts.non_nvidia_gpus.value if facts.non_nvidia_gpus else ()
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
    complete = answer.host.features is not None and not answer.host.cut
    platform = catalog.isas[variant.isa].platform
    return ChosenRow(
        name=variant.name,
        gpus=[*map(str, assigned.gpus)],
        compiled_for=[*map(str, fit.exact)],
        idle=[*map(str, fit.idle)] if not fit.used else (),
        reasons=fit.reasons,
        assumptions=[*map(str, fit.assumptions)],
        unproved=_not_proved(fit, catalog),
        older=host.why_older(fit.cell, catalog),
        isas=[isa for isa in answer.workload.isas if isa in runnable] if complete else (),
        isa_why=_why_isa(variant, answer, catalog) if complete else "",
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
        assumptions=[*map(str, fit.assumptions)],
        unproved=_not_proved(fit, opened.catalog),
        cost=answer.cost(fit.variant, opened.catalog),
        commands=build_commands(fit.variant, here, also=answer.also(fit.variant), included=False),
        file=opened.adds(fit.variant),
    )


def _not_chosen(answer: host.Pick, catalog: Catalog) -> Iterator[CandidateRow]:
    """Yield every other candidate and why it was not chosen."""
    chosen = [assigned.fit for assigned in answer.choice.variants]
    for fit in answer.ranking.fits:
        if fit not in chosen:
            why = f"runs, but {why_after(fit, chosen[0], catalog, answer.workload)}" if chosen else "runs"
            yield CandidateRow(fit.variant.name, why)
    for miss in answer.ranking.misses:
        yield CandidateRow(miss.variant.name, "; ".join(map(str, miss.reasons)))


def _why_isa(variant: Variant, answer: host.Pick, catalog: Catalog) -> str:
    """Return which workload would prefer a wider instruction set of the CPU; empty if none does."""
    runnable = {fit.variant.isa for fit in answer.ranking.fits}
    known = known_isas(answer.host.features, answer.host.system, catalog)
    widest = next((isa for isa in known if isa in runnable), variant.isa)
    for name, workload in catalog.workloads.items():
        if next((isa for isa in workload.isas if isa in (widest, variant.isa)), "") == widest != variant.isa:
            return f"{variant.isa} suits {answer.workload.name} use; --workload {name} prefers {widest}"
    return ""


def _not_proved(fit: Compatible, catalog: Catalog) -> list[str]:
    """Return what is not proved of a cell, as `show` lists it."""
    claims = map(str, fit.unproved)
    return list(dict.fromkeys((*claims, *describe(fit.variant, catalog, fit.cell.line).unproved)))


def _audit_findings(recipe: Path, here: Environment) -> list[str]:
    """Return the first few errors and warnings of the audit in a recipe of the workspace."""
    if here.folder is None or not recipe.exists():
        return []
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import audit

    serious = audit((recipe,), Path(here.folder)).of(Severity.ERROR, Severity.WARNING)
    findings = [f"{finding.rule} {finding.message}" for finding in serious]
    if len(findings) <= FEW:
        return findings
    return [*findings[: FEW - 1], f"{len(findings) - FEW + 1} more: torchsmith audit"]


def _system(machine: Capability) -> str:
    """Return the system in words: the CPU of a Mac may be unknown."""
    return (machine.system or "").replace("any-darwin", "macOS")


def _missing(answer: host.Pick, catalog: Catalog) -> tuple[list[str], Candidates, Candidates]:
    """Return what no variant serves and why, the nearest variants, and those that cannot be built."""
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
    unbuildable = [
        CandidateRow(cell.variant.name, "; ".join(map(str, cell.reasons))) for cell in answer.unbuildable
    ]
    if not answer.ranking.fits and not answer.ranking.misses:
        return [f"no candidate has {' and '.join(map(str, answer.stack))}"], [], unbuildable
    if machine.unknown_gpus and not unserved:
        return _unknown_gpus(answer), [], []
    if not unserved:
        return ["no candidate runs on this machine"], _nearest(answer), unbuildable
    retired = [sm for sm in unserved if sm in catalog.retired]
    texts = [f"{_title(sm, catalog)}: {catalog.retired[sm].ended}" for sm in retired]
    if machine.unknown_gpus and not answer.has_variant:
        texts += _unknown_gpus(answer)
    if remaining := [_title(sm, catalog) for sm in unserved if sm not in retired]:
        texts.append(f"no candidate can use {', '.join(remaining)} on this machine")
        return texts, _nearest(answer), unbuildable
    return texts, [], []


def _notes(answer: host.Pick, catalog: Catalog) -> list[str]:
    """Return notes about GPUs that the choice leaves out."""
    machine, texts = answer.host, []
    if answer.idle_others:
        texts.append(host.why_idle(answer.idle_others, machine, catalog))
    elif machine.sms is None and answer.has_variant and not machine.archs:
        texts.append("the GPUs are unknown: this is for the CPU only; add a report of nvidia-smi, or --gpu")
    return texts


def _unknown_gpus(answer: host.Pick) -> list[str]:
    """Return which GPUs are of unknown architecture, and the lines that name them."""
    names = [name for name in answer.host.unknown_gpus if name != GpuFacts().label]
    if any(OR in name for name in names):
        return [f"which GPU is it, {', '.join(names)}? choose by --gpu", *_gpu_notes(answer)]
    which = (
        f"the architecture of {', '.join(names)} is unknown"
        if names
        else "there is a GPU, but its model is unknown"
    )
    return [f"{which}: give it, as in --gpu 'RTX 4090' or --gpu sm89", *_gpu_notes(answer)]


def _gpu_notes(answer: host.Pick) -> list[str]:
    return [*(str(note) for note in answer.facts.notes if note.gpu), "for the CPU only: --gpu none"]


def _to_run(machine: Capability) -> list[str]:
    """Return what to run on the machine for the facts that a report does not state."""
    commands = host.missing_commands(machine)
    text = f"for what the report does not say, add what these print there: {'; '.join(commands)}"
    return [text] if commands else []


def _nearest(answer: host.Pick) -> list[CandidateRow]:
    """Return the nearest variants, equal ones in a row; if only the driver is too old, the first."""
    misses = grouped(("; ".join(map(str, miss.reasons)), miss.variant.name) for miss in answer.near)
    by_driver = answer.near and {reason.code for reason in answer.near[0].reasons} == {"driver"}
    return [CandidateRow(some_of(names), why) for why, names in misses.items()][: 1 if by_driver else FEW]


def _title(sm: Sm, catalog: Catalog) -> str:
    """Return an architecture with its title."""
    known, old = catalog.gpus.get(sm), catalog.retired.get(sm)
    title = known.title if known else old.generation if old else ""
    return f"{sm} ({title})" if title else str(sm)


def stock_wheels(machine: Capability, catalog: Catalog) -> list[Stock]:
    """Return PyTorch's own wheels for a machine: one for each maker of its GPUs, or the one for the CPU."""
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
        assumptions=stock.provided,
        unproved=stock.wheel.unproved,
    )


def _first_manifest(report: PickReport) -> str:
    """Return the manifest of the first choice. Raises Incomplete if no organisation is known."""
    manifests = [chosen.manifest for chosen in report.choice[:1]]
    if not all(manifests):
        hint = 'give --org, or write org = "..." into torchsmith.toml'
        raise Incomplete("no Flox organisation to install from is known", hint=hint)
    return "".join(manifests)


def _write_missing(path: Path, report: PickReport, request: PickRequest) -> None:
    """Write the missing cells as a torchsmith.toml."""
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import read_as

    catalog = request.opened().catalog
    cells = [Cell(Variant.parse(name, catalog), line) for name, line in report.missing_cells.items()]
    write_matrix(path, cells, "What torchsmith pick found missing.", read_as)


def run(
    *,
    request: PickRequest,
    facts: Annotated[bool, Option("Show what is known about the machine, with sources, and stop.")] = False,
    manifest: Annotated[
        bool, Option("Print the manifest.toml of a Flox environment that installs it.")
    ] = False,
    names: Annotated[bool, Option("Print only the chosen names.")] = False,
    create: Annotated[
        Path | None, Option("Write the missing cells as a torchsmith.toml.", metavar="FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one described by reports or options.

    The candidates are the variants of the workspace, or without one all that can be built. The exit code is 1
    if no variant runs, or none uses a GPU of the machine. [bold]--from[/bold] reads what
    [bold]--facts --json[/bold] printed on another machine.
    """
    if manifest + names + (json or facts) > 1:
        given = "--manifest, --names, --facts and --json"
        raise Conflict(f"{given} exclude each other, except --facts --json", hint="give one of them")
    if facts:
        known = pick_facts(request)
        if json:
            print_json(known, sort=True)
        else:
            _print_facts(known, request.opened().catalog)
        return
    if create is not None:
        from torchsmith.host.matrix_file import check_free

        check_free(create)
    report = pick(replace(request, explain=True) if json else request)
    if manifest:
        sys.stdout.write(_first_manifest(report))
    elif names:
        sys.stdout.write("".join(f"{chosen.name}\n" for chosen in report.choice))
    elif json:
        print_json(report, sort=True)
    else:
        _print_report(report)
        if request.explain:
            write(f"for {report.workload} use: {report.workload_why}", "dim")
            write()
            not_chosen = [(row.name, row.why) for row in report.not_chosen]
            columns([[("not chosen", "cyan"), ("why", "cyan")], *not_chosen])
        _print_notes(report, everything=request.explain)
    if create is not None:
        _write_missing(create, report, request)
        warn(f"written: {create}")
    exit_if(not report.served)


def _print_report(report: PickReport) -> None:
    """Print the machine, the choice with its commands, what is missing, and what to use until then."""
    write(report.candidates, "dim")
    write(report.machine, "dim")
    write()
    if not report.served:  # first a build that uses the GPU, then one that leaves it idle
        _print_missing(report)
    for chosen in report.choice:
        _print_chosen(chosen, report)
    if len(report.choice) > 1:
        selecting = "; CUDA_VISIBLE_DEVICES selects one for a program"
        by_cuda = all(gpu.startswith("sm") for chosen in report.choice for gpu in chosen.gpus)
        write(f"no single variant runs on all GPUs{selecting if by_cuda else ''}")
        write()
    if report.served:
        _print_drivers(report)
    for text in report.notes:
        write(text, "yellow")
    for sm, name in report.compiled_for_one.items():
        write(f"for {sm} only, {name} is compiled for it")
    if report.served:
        _print_missing(report)
    for wheel in report.wheels:
        kind = f"CUDA {wheel.cuda}" if wheel.cuda else f"ROCm {wheel.rocm}" if wheel.rocm else wheel.gpu
        kind = kind or "the CPU only"
        write(f"without a build of your own: PyTorch's wheel of {wheel.torch} for {kind}", "bold")
        for text in wheel.assumptions:
            write(f"  provided that {text}", "yellow")
        for text in wheel.losses:
            write(f"  drawback: {text}")
        if wheel.unproved:
            write(f"  not proved: {wheel.unproved}", "yellow")
        print_commands({"pip": wheel.command})
    if report.no_tools:
        write("neither Nix nor Flox is installed; torchsmith doctor says how to get them", "yellow")


def _print_chosen(chosen: ChosenRow, report: PickReport) -> None:
    several = len(report.choice) > 1
    write(paint(chosen.name, "bold green") + (f"  for {', '.join(map(str, chosen.gpus))}" if several else ""))
    for text in chosen.assumptions:
        write(f"  provided that {text}", "yellow")
    if chosen.idle:
        write(f"  runs on the CPU only and leaves {', '.join(map(str, chosen.idle))} idle", "yellow")
    for text in chosen.reasons:
        write(f"  {text}")
    for text in (chosen.isa_why, chosen.older):
        if text:
            write(f"  {text}")
    for text in chosen.unproved:
        write(f"  not proved: {text}", "yellow")
    for text in chosen.audit:
        write(f"  audit: {text}", "yellow")
    if chosen.companions:
        write(f"  with {', '.join(chosen.companions)}")
    if report.bundled:
        write(f"  brings {', '.join(report.bundled)}: its recipe holds them")
    write(f"  to build: {chosen.cost}" + " (coarse estimates)" * bool(chosen.cost.cores))
    print_commands(chosen.commands)
    write()


def _print_missing(report: PickReport) -> None:
    """Print what is not served, the nearest variants, and what to make."""
    for text in report.missing:
        last = report.nearest and text == report.missing[-1]
        write(f"{text}; the nearest:" if last else text, "" if last else "yellow")
    for row in report.nearest:
        write(f"  {paint(row.name, 'bold')}")
        write(f"    {row.why}")
    for row in report.impossible:
        write(f"{row.name} cannot be built: {row.why}", "yellow")
    better = "would be compiled for this GPU" if report.served else "would run here"
    for wanted in report.create:
        write(f"{paint(wanted.name, 'bold green')} {better}; to make it:")
        for text in wanted.assumptions:
            write(f"  provided that {text}", "yellow")
        for text in wanted.unproved:
            write(f"  not proved: {text}", "yellow")
        write(f"  to build: {wanted.cost}" + " (coarse estimates)" * bool(wanted.cost.cores))
        if wanted.file:
            then = command("apply", workspace=Path(wanted.file).parent)
            write(f'  add "{wanted.name}" to include in {wanted.file}, then: {then}; or in a new workspace:')
        print_commands(wanted.commands)
        write()
    if not report.served:
        _print_drivers(report)


def _print_drivers(report: PickReport) -> None:
    """Print what a newer driver would get, if the driver is unknown."""
    for driver, names in report.by_driver.items():
        write(f"with driver {driver} or newer: {', '.join(names)}")
    for system, names in report.by_system.items():
        write(f"on {system}: {', '.join(names)}")
    if report.by_driver or report.by_system:
        write()


def _print_notes(report: PickReport, *, everything: bool) -> None:
    """Print which facts were not used and why: the first few, or all of them."""
    notes = [note for note in report.host.notes if report.choice or not note.gpu]
    shown = notes if everything or len(notes) <= FEW else notes[: FEW - 1]
    for note in shown:
        warn(f"note: {note}")
    if len(shown) < len(notes):
        warn(f"note: {len(notes) - len(shown)} more: --explain")


def _print_facts(facts: HostFacts, catalog: Catalog) -> None:
    """Print the facts with their sources, and notes on stderr."""
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
    if facts.driver:
        yield "NVIDIA driver", str(facts.driver.value), facts.driver.source
    if facts.gpus:
        yield from (_gpu_row(gpu, facts.gpus.source) for gpu in facts.gpus.value)
    if facts.non_nvidia_gpus:
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
