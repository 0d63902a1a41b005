"""A pick, for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from torchsmith.api.choosing import (
    audit_findings,
    is_about_gpu,
    manifest_of,
    nearest_misses,
    stock_wheels,
    title_of,
    where_built,
    why_older,
)
from torchsmith.catalog import Catalog, Sm
from torchsmith.cli.console import columns, paint, warn, write
from torchsmith.host.commands import Environment, build_commands, install_command
from torchsmith.host.facts import GpuFacts, Note
from torchsmith.host.pick import Assigned, Pick
from torchsmith.host.rank import Compatible, why_after
from torchsmith.host.read_pci import OTHERS
from torchsmith.host.resolve import known_isas
from torchsmith.host.stock import Stock
from torchsmith.matrix import Variant

NOTES = 3
NEW_LINE = "\n" + " " * 10  # a shell reads on after &&
FileOf = Callable[[Variant], str]  # the file to which a cell can be added; empty: none


def print_pick(pick: Pick, catalog: Catalog, here: Environment, file: FileOf) -> None:
    """The machine in a line, the answer with its commands, what is missing, and what serves until then."""
    write(_machine(pick, catalog), "dim")
    write()
    if pick.choice.unserved:
        # A build that uses the GPU comes before one that leaves it idle.
        _print_missing(pick, catalog)
        _print_wanted(pick, here, file)
    for one in pick.choice.variants:
        _print_assigned(one, pick, catalog, here)
    if len(pick.choice.variants) > 1:
        write("no single variant runs on all GPUs; CUDA_VISIBLE_DEVICES tells a program which to use")
        write()
    if pick.host.others and not pick.host.sms:
        write(f"{', '.join(pick.host.others)}: {OTHERS}", "yellow")
    elif pick.host.sms is None and pick.found:
        unknown = "the GPUs are unknown: this is for the CPU alone; add a report of nvidia-smi, or --gpu"
        write(unknown, "yellow")
    for sm, fit in pick.exact:
        write(f"for {sm} alone, {fit.variant.name} is compiled for it")
    if not pick.choice.unserved:
        _print_missing(pick, catalog)
        _print_wanted(pick, here, file)
    _print_stock(pick, catalog)
    if not here.nix and not here.flox:
        write("neither Nix nor Flox is here to build with; torchsmith doctor says how to get them", "yellow")


def _machine(pick: Pick, catalog: Catalog) -> str:
    host, facts = pick.host, pick.facts
    gpus = [gpu.label for gpu in facts.gpus.value] if facts.gpus else []
    counted = [
        f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus)
    ]
    words = [host.system or "system unknown"]
    isas = known_isas(host.features, host.system, catalog)
    if host.features is None:
        words.append("CPU unknown")
    elif not isas and (host.cut or host.system is None):
        words.append("CPU known in part")
    else:
        words.append(f"CPU runs {', '.join(isas)}" if isas else "CPU runs none of the instruction sets here")
    words.append(", ".join(counted) or ("no NVIDIA GPU" if facts.gpus else "GPUs unknown"))
    if host.sms:
        words.append("driver " + (str(host.driver) if host.driver else "unknown"))
    return "; ".join(words)


def _print_assigned(one: Assigned, pick: Pick, catalog: Catalog, here: Environment) -> None:
    fit = one.fit
    whom = f"  for {', '.join(map(str, one.gpus))}" if len(pick.choice.variants) > 1 else ""
    write(paint(fit.variant.name, "bold green") + whom)
    for reason in fit.provided:
        write(f"  provided that {reason}", "yellow")
    if fit.idle and not fit.used:
        idle = ", ".join(map(str, fit.idle))
        write(f"  runs on the CPU alone and leaves {idle} idle", "yellow")
    for text in fit.reasons:
        write(f"  {text}")
    able = [isa for isa in pick.workload.isas if isa in {other.variant.isa for other in pick.ranking.fits}]
    if len(able) > 1 and pick.host.features is not None and not pick.host.cut:
        write(f"  instruction sets for {pick.workload.name} use, the best first: {', '.join(able)}")
    for warning in fit.unproved:
        write(f"  not proved: {warning}", "yellow")
    if older := why_older(fit.cell, catalog):
        write(f"  {older}")
    for text in audit_findings(here.recipe(fit.variant), here):
        write(f"  audit: {text}", "yellow")
    own = tuple(name for name in pick.companions if name.endswith(fit.variant.cell))
    if own:
        write(f"  with {', '.join(own)}")
    if pick.brought:
        write(f"  brings {', '.join(pick.brought)}: its recipe holds them")
    install = install_command(fit.variant, here.org)
    _print_commands(
        ({"install": install} if install else {})
        | build_commands(fit.variant, where_built(fit.cell, here, catalog), also=pick.also(fit.variant))
    )
    write()


def _print_commands(commands: dict[str, str]) -> None:
    """Each as it can be copied: a line for a step, none of them broken to the terminal's width."""
    for label, command in commands.items():
        write(f"  {paint(f'{label:<8}', 'cyan')}{command.replace(' && ', f' &&{NEW_LINE}')}", whole=True)


def _print_missing(pick: Pick, catalog: Catalog) -> None:
    host = pick.host
    systems = sorted({isa.platform for isa in catalog.isas.values()})
    if host.system is not None and host.system not in systems:
        wsl = (
            "; Windows runs them in WSL2, for which --system x86_64 picks"
            if host.system.endswith("-windows")
            else ""
        )
        write(f"no variant runs on {host.system}: all of them are for {' or '.join(systems)}{wsl}")
        return
    if pick.found and not pick.choice.unserved and not host.unknown_gpus:
        return
    if not pick.ranking.fits and not pick.ranking.misses:
        write(f"no cell of this matrix has {' and '.join(map(str, pick.stack))}")
    elif host.unknown_gpus and not host.sms:
        _print_unknown(pick)
        return
    elif pick.choice.unserved:
        for sm in pick.choice.unserved:
            if sm in catalog.retired:
                write(f"{title_of(sm, catalog)}: {catalog.retired[sm].ended}", "yellow")
        left = tuple(sm for sm in pick.choice.unserved if sm not in catalog.retired)
        if host.unknown_gpus and not pick.found:
            _print_unknown(pick)
        if not left:
            return
        write(
            f"no variant of this matrix uses {', '.join(title_of(sm, catalog) for sm in left)}; the nearest:"
        )
    elif host.unknown_gpus:
        _print_unknown(pick)
        return
    else:
        write("no variant of this matrix runs on this machine; the nearest:")
    for names, why in nearest_misses(pick):
        write(f"  {paint(names, 'bold')}")
        write(f"    {why}")
    for out in pick.barred:
        write(f"{out.variant.name} cannot be: {'; '.join(map(str, out.reasons))}", "yellow")


def _print_unknown(pick: Pick) -> None:
    """GPUs that are there and that nobody understood: which, and the line that shows them."""
    names = [name for name in pick.host.unknown_gpus if name != GpuFacts().label]
    which = (
        f"the architecture of {', '.join(names)} is unknown"
        if names
        else "there is a GPU, and not known which"
    )
    write(f"{which}: give it, as in --gpu 'RTX 4090' or --gpu sm89", "yellow")
    for note in filter(is_about_gpu, pick.facts.notes):
        write(f"  {note}")
    write("  for the CPU alone: --gpu none")


def _print_wanted(pick: Pick, here: Environment, file: FileOf) -> None:
    for fit in pick.wanted:
        compatible = pick.found and not pick.choice.unserved
        better = "would be compiled for this GPU" if compatible else "would run here"
        write(f"{paint(fit.variant.name, 'bold green')} {better}; to make it:")
        for reason in fit.provided:
            write(f"  provided that {reason}", "yellow")
        for warning in fit.unproved:
            write(f"  not proved: {warning}", "yellow")
        if file(fit.variant):
            add = f'add "{fit.variant.name}" to include in {file(fit.variant)}, then: torchsmith generate'
            write(f"  {add}; or in a workspace of its own:")
        _print_commands(build_commands(fit.variant, here, also=pick.also(fit.variant), included=False))
        write()


def _print_stock(pick: Pick, catalog: Catalog) -> None:
    if pick.host.system and pick.host.system.endswith("-darwin"):
        write("PyTorch's own wheel runs on macOS, on Apple's GPUs too (MPS): pip install torch")
    for found in stock_wheels(pick.host, catalog):
        wheel = found.wheel
        kind = f"CUDA {wheel.cuda}" if wheel.cuda else f"ROCm {wheel.rocm}" if wheel.rocm else "the CPU alone"
        write(f"without a build of your own: PyTorch's wheel of {wheel.torch} for {kind}", "bold")
        for text in found.provided:
            write(f"  provided that {text}", "yellow")
        for text in found.losses:
            write(f"  what you lose: {text}")
        if wheel.unproved:
            write(f"  not proved: {wheel.unproved}", "yellow")
        _print_commands({"pip": wheel.command})


def print_notes(notes: Sequence[Note], *, everything: bool) -> None:
    """What was not used, and why: the first few, unless all of them are asked for."""
    shown = notes if everything or len(notes) <= NOTES else notes[: NOTES - 1]
    for note in shown:
        warn(f"note: {note}")
    if len(shown) < len(notes):
        warn(f"note: {len(notes) - len(shown)} more: --explain")


def print_explanations(pick: Pick, catalog: Catalog) -> None:
    """Every other candidate and why not."""
    write(f"for {pick.workload.name} use: {pick.workload.why}", "dim")
    write()
    columns([[("not chosen", "cyan"), ("why", "cyan")], *_others(pick, catalog)])


def _others(pick: Pick, catalog: Catalog) -> list[tuple[str, str]]:
    chosen = [one.fit for one in pick.choice.variants]
    best = chosen[0] if chosen else None
    runs = [
        (fit.variant.name, f"runs, but {why_after(fit, best, catalog, pick.workload)}" if best else "runs")
        for fit in pick.ranking.fits
        if fit not in chosen
    ]
    return runs + [(miss.variant.name, "; ".join(map(str, miss.reasons))) for miss in pick.ranking.misses]


class ChosenRow(msgspec.Struct, frozen=True):
    """A variant for this machine, and how to have it."""

    name: str
    gpus: Sequence[Sm]
    compiled_for: Sequence[Sm]
    reasons: Sequence[str]
    provided: list[str]
    unproved: list[str]
    install: str  # empty where no organisation is known
    build: list[str]  # what builds it here; what cannot run here is not among them
    audit: list[str]  # what the audit has against the recipe that lies here
    manifest: str  # for somebody who installs it with Flox; empty where no organisation is known


class StockRow(msgspec.Struct, frozen=True):
    """PyTorch's own wheel for this machine, and what one loses with it."""

    torch: str
    cuda: str
    command: str
    losses: Sequence[str]
    provided: Sequence[str] = ()
    rocm: str = ""


class CreateRow(msgspec.Struct, frozen=True):
    """A variant that would suit better, and the steps to it."""

    name: str
    steps: list[str]
    unproved: list[str]
    provided: list[str] = []


class OtherRow(msgspec.Struct, frozen=True):
    """A variant that was not chosen, and why."""

    name: str
    why: str


class PickDocument(msgspec.Struct, frozen=True):
    """The answer, with the machine as `host --json` tells it."""

    host: dict[str, Any]
    gpus_known: bool
    workload: str
    choice: list[ChosenRow]
    unserved: Sequence[Sm]
    companions: Sequence[str]
    brought: Sequence[str]
    compiled_for_one: dict[str, str]
    create: list[CreateRow]
    stock: StockRow | None
    other_wheels: list[StockRow]  # for GPUs of another maker that are there too
    others: list[OtherRow]


def pick_json(pick: Pick, catalog: Catalog, here: Environment) -> PickDocument:
    """The whole answer as data."""
    from torchsmith.host.document import to_document

    stock = [_stock_row(found) for found in stock_wheels(pick.host, catalog)]
    return PickDocument(
        host=to_document(pick.facts),
        gpus_known=pick.host.sms is not None,
        workload=pick.workload.name,
        choice=[_chosen(one, pick, catalog, here) for one in pick.choice.variants],
        unserved=pick.choice.unserved,
        companions=pick.companions,
        brought=pick.brought,
        compiled_for_one={str(sm): fit.variant.name for sm, fit in pick.exact},
        create=[_wanted(fit, pick, here) for fit in pick.wanted],
        stock=stock[0] if stock else None,
        other_wheels=stock[1:],
        others=[OtherRow(*one) for one in _others(pick, catalog)],
    )


def _stock_row(found: Stock) -> StockRow:
    wheel = found.wheel
    return StockRow(
        wheel.torch, str(wheel.cuda or ""), wheel.command, found.losses, found.provided, wheel.rocm
    )


def _wanted(fit: Compatible, pick: Pick, here: Environment) -> CreateRow:
    steps = build_commands(fit.variant, here, also=pick.also(fit.variant), included=False)
    conditions = [*map(str, fit.provided)]
    return CreateRow(fit.variant.name, [*steps.values()], [*map(str, fit.unproved)], conditions)


def _chosen(one: Assigned, pick: Pick, catalog: Catalog, here: Environment) -> ChosenRow:
    fit, variant = one.fit, one.fit.variant
    where = where_built(fit.cell, here, catalog)
    return ChosenRow(
        name=variant.name,
        gpus=one.gpus,
        compiled_for=fit.exact,
        reasons=fit.reasons,
        provided=[*map(str, fit.provided)],
        unproved=[*map(str, fit.unproved)],
        install=install_command(variant, here.org),
        build=[*build_commands(variant, where, also=pick.also(variant)).values()],
        audit=audit_findings(here.recipe(variant), here),
        manifest=manifest_of(one, pick, catalog, here.org) if here.org else "",
    )


def print_answer(pick: Pick, catalog: Catalog, here: Environment, file: FileOf, *, explain: bool) -> None:
    """Everything that a person should see, with what was not used."""
    print_pick(pick, catalog, here, file)
    if explain:
        print_explanations(pick, catalog)
    print_notes(
        [note for note in pick.facts.notes if not is_about_gpu(note) or pick.found], everything=explain
    )
