"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from torchsmith.api.choosing import PickRequest, pick
from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption
from torchsmith.catalog import Catalog, Sm
from torchsmith.catalog.ranges import version_key
from torchsmith.cli.console import columns, exit_if, paint, print_json, warn, write
from torchsmith.core.problem import Conflict, Incomplete
from torchsmith.core.words import grouped, some_of
from torchsmith.host.commands import Surroundings, build_commands, flox_manifest, install_command, stand_here
from torchsmith.host.facts import GpuFacts, Note
from torchsmith.host.pick import Assigned, Pick
from torchsmith.host.rank import Fits, why_after
from torchsmith.host.read_pci import OTHERS
from torchsmith.host.resolve import UNKNOWN, known_isas
from torchsmith.host.stock import stock_wheel
from torchsmith.matrix import Cell, Rejected, Variant, assess

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"


def run(
    *,
    request: PickRequest,
    org: Annotated[str, Option("The Flox organisation that publishes; else `org` of torchsmith.toml.")] = "",
    manifest: Annotated[
        bool, Option("Print the manifest.toml of a Flox environment that installs it.")
    ] = False,
    explain: Annotated[bool, Option("Say of every candidate why not.")] = False,
    names: Annotated[bool, Option("Print the chosen names alone.")] = False,
    create: Annotated[
        Path | None, Option("Write what is missing as a torchsmith.toml.", metavar="FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one that reports or options describe.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where no variant runs, or none uses a GPU that is there.
    """
    if manifest + names + json > 1:
        raise Conflict("--manifest, --names and --json each print something else", hint="give one of them")
    if create is not None:
        from torchsmith.host.matrix_file import check_free

        check_free(create)
    opened = request.opened()
    catalog = opened.catalog
    answer = pick(request, opened)
    here = stand_here(opened.root, org or opened.settings.org)
    if manifest:
        print_manifest(answer, catalog, here.org)
    elif names:
        sys.stdout.write("".join(f"{one.fit.variant.name}\n" for one in answer.choice.variants))
    elif json:
        print_json(pick_json(answer, catalog, here))
    else:
        print_pick(answer, catalog, here, opened.adds)
        if explain:
            print_explanations(answer, catalog)
        shown = [note for note in answer.facts.notes if not _names_gpu(note) or answer.found]
        print_notes(shown, everything=explain)
    if create is not None:
        write_missing(create, answer, catalog)
    exit_if(not answer.served)


NEAREST = 3
NOTES = 3
NEW_LINE = "\n" + " " * 10  # a shell reads on after &&
FileOf = Callable[[Variant], str]  # the file to which a cell can be added; empty: none


def print_pick(pick: Pick, catalog: Catalog, here: Surroundings, file: FileOf) -> None:
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
        write(f"{', '.join(pick.host.others)}: {OTHERS}; PyTorch has wheels for ROCm", "yellow")
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


def _print_assigned(one: Assigned, pick: Pick, catalog: Catalog, here: Surroundings) -> None:
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
    if len(able) > 1 and pick.host.features is not None:
        write(f"  instruction sets for {pick.workload.name} use, the best first: {', '.join(able)}")
    for warning in fit.unproved:
        write(f"  not proved: {warning}", "yellow")
    if older := why_older(fit.cell, catalog):
        write(f"  {older}")
    for text in audit_of(here.recipe(fit.variant), here):
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
                write(f"{_titles((sm,), catalog)}: {catalog.retired[sm].ended}", "yellow")
        left = tuple(sm for sm in pick.choice.unserved if sm not in catalog.retired)
        if not left:
            return
        write(f"no variant of this matrix uses {_titles(left, catalog)}; the nearest:")
    elif host.unknown_gpus:
        _print_unknown(pick)
        return
    else:
        write("no variant of this matrix runs on this machine; the nearest:")
    for miss in _nearest(pick):
        write(f"  {paint(miss[0], 'bold')}")
        write(f"    {miss[1]}")
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
    for note in filter(_names_gpu, pick.facts.notes):
        write(f"  {note}")
    write("  for the CPU alone: --gpu none")


def _names_gpu(note: Note) -> bool:
    """Whether a note is about a GPU that was seen and not understood."""
    return (
        "shows an NVIDIA GPU" in note.text or "it is taken from" in note.text or note.text.endswith(UNKNOWN)
    )


def _nearest(pick: Pick) -> list[tuple[str, str]]:
    """Misses that concern what is not served: GPU builds for a GPU, any build for a CPU."""
    own = [miss for miss in pick.ranking.misses if miss.variant.sm in pick.choice.unserved]
    found = grouped(
        ("; ".join(map(str, miss.reasons)), miss.variant.name)
        for miss in own or pick.ranking.misses
        if not pick.choice.unserved or miss.variant.sm
    )
    return [(some_of(names), why) for why, names in found.items()][:NEAREST]


def _print_wanted(pick: Pick, here: Surroundings, file: FileOf) -> None:
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
    found = stock_wheel(pick.host, catalog)
    if found is None:
        if pick.host.system and pick.host.system.endswith("-darwin"):
            write("PyTorch's own wheel runs on macOS, on Apple's GPUs too (MPS): pip install torch")
        return
    kind = f"CUDA {found.wheel.cuda}" if found.wheel.cuda else "the CPU alone"
    write(f"without a build of your own: PyTorch's wheel of {found.wheel.torch} for {kind}", "bold")
    for text in found.provided:
        write(f"  provided that {text}", "yellow")
    for text in found.losses:
        write(f"  what you lose: {text}")
    if found.wheel.unproved:
        write(f"  not proved: {found.wheel.unproved}", "yellow")
    _print_commands({"pip": found.wheel.command})


def _titles(sms: tuple[Sm, ...], catalog: Catalog) -> str:
    old = {sm: f"{one.generation}" for sm, one in catalog.retired.items()}
    titles = old | {sm: gpu.title for sm, gpu in catalog.gpus.items()}
    return ", ".join(f"{sm} ({titles[sm]})" if sm in titles else str(sm) for sm in sms)


def why_older(cell: Cell, catalog: Catalog) -> str:
    """Why a cell is not of the newest torch that is known here; empty where it is."""
    lines = [line for line in catalog.lines.values() if line.torch and line.flavor == cell.variant.flavor]
    newest = max(lines, key=lambda line: version_key(line.torch), default=None)
    own = catalog.lines.get(cell.line)
    if newest is None or own is None or not own.torch or version_key(own.torch) >= version_key(newest.torch):
        return ""
    decision = assess(cell.variant, catalog, newest.name)
    reasons = decision.reasons if isinstance(decision, Rejected) else decision.warnings
    why = reasons[0].text if reasons else "this matrix does not ask for it"
    return f"torch {own.torch}; {newest.torch} is the newest known: {why}"


def audit_of(recipe: Path, here: Surroundings) -> list[str]:
    """What the audit has against a recipe that lies in the workspace: errors and warnings, the first few."""
    if here.folder is None or not recipe.exists():
        return []
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import audit

    found = audit((recipe,), Path(here.folder), jobs=1).of(Severity.ERROR, Severity.WARNING)
    told = [f"{finding.rule} {finding.message}" for finding in found]
    return (
        told
        if len(told) <= NOTES
        else [*told[: NOTES - 1], f"{len(told) - NOTES + 1} more: torchsmith audit"]
    )


def where_built(cell: Cell, here: Surroundings, catalog: Catalog) -> Surroundings:
    """The tools that can build a cell: one whose packages come from Flox' catalog has no nixpkgs for Nix."""
    line = catalog.lines.get(cell.line)
    build = line.build_for(cell.variant.cuda) if line else None
    return msgspec.structs.replace(here, nix=False) if build and build.style == "catalog" else here


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
    others: list[OtherRow]


def pick_json(pick: Pick, catalog: Catalog, here: Surroundings) -> PickDocument:
    """The whole answer as data."""
    from torchsmith.host.document import to_document

    stock = None
    if found := stock_wheel(pick.host, catalog):
        wheel = found.wheel
        stock = StockRow(wheel.torch, str(wheel.cuda or ""), wheel.command, found.losses, found.provided)
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
        stock=stock,
        others=[OtherRow(*one) for one in _others(pick, catalog)],
    )


def _wanted(fit: Fits, pick: Pick, here: Surroundings) -> CreateRow:
    steps = build_commands(fit.variant, here, also=pick.also(fit.variant), included=False)
    conditions = [*map(str, fit.provided)]
    return CreateRow(fit.variant.name, [*steps.values()], [*map(str, fit.unproved)], conditions)


def _chosen(one: Assigned, pick: Pick, catalog: Catalog, here: Surroundings) -> ChosenRow:
    fit, variant = one.fit, one.fit.variant
    conditions = ([*map(str, fit.provided)], [*map(str, fit.unproved)])
    install = install_command(variant, here.org)
    by = where_built(fit.cell, here, catalog)
    build = [*build_commands(variant, by, also=pick.also(variant)).values()]
    manifest = manifest_of(one, pick, catalog, here.org) if here.org else ""
    facts = (variant.name, one.gpus, fit.exact, fit.reasons)
    found = audit_of(here.recipe(variant), here)
    return ChosenRow(*facts, *conditions, install, build, found, manifest)


def manifest_of(one: Assigned, pick: Pick, catalog: Catalog, org: str) -> str:
    """What somebody puts into the manifest.toml of a Flox environment to have the cell."""
    own = tuple(name for name in pick.companions if name.endswith(one.fit.variant.cell))
    return flox_manifest(one.fit.variant, own, org, catalog.isas[one.fit.variant.isa].platform)


def print_manifest(pick: Pick, catalog: Catalog, org: str) -> None:
    """The manifest of the first choice."""
    if not org:
        hint = 'give --org, or write org = "..." into torchsmith.toml'
        raise Incomplete("no Flox organisation is known, so nothing can be installed from one", hint=hint)
    for one in pick.choice.variants[:1]:
        sys.stdout.write(manifest_of(one, pick, catalog, org))


def write_missing(path: Path, pick: Pick, catalog: Catalog) -> None:
    """Write what is missing as a torchsmith.toml."""
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import read_as

    write_matrix(path, pick.missing_cells(catalog), "What torchsmith pick found missing.", read_as)
    warn(f"written: {path}")
    for text in dict.fromkeys(str(reason) for fit in pick.wanted for reason in fit.unproved):
        warn(f"not proved: {text}")
