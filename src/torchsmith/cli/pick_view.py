"""A pick for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from rich.table import Table
from rich.text import Text

from torchsmith.catalog import Catalog, Sm
from torchsmith.cli.console import out, say
from torchsmith.host.commands import build_commands, create_steps, install_command
from torchsmith.host.document import to_document
from torchsmith.host.judge import Fits
from torchsmith.host.pick import Assigned, Pick
from torchsmith.host.rank import why_after
from torchsmith.host.resolve import known_isas
from torchsmith.matrix import Variant

NEAREST = 3
FileOf = Callable[[Variant], str]  # the file to which a cell can be added; empty: none


def print_pick(pick: Pick, catalog: Catalog, org: str, file: FileOf) -> None:
    """The machine in a line, the answer with its commands, and what is missing."""
    console = out()
    say(_machine(pick, catalog), "dim")
    console.print()
    for one in pick.choice.variants:
        _print_assigned(one, pick, org)
    if len(pick.choice.variants) > 1:
        say("no single variant runs on all GPUs; CUDA_VISIBLE_DEVICES tells a program which to use")
        console.print()
    if pick.host.sms is None:
        say("the GPUs are unknown: this is for the CPU alone; add a report of nvidia-smi, or --gpu", "yellow")
    for sm, fit in pick.exact:
        say(f"for {sm} alone, {fit.variant.name} is compiled for it")
    _print_missing(pick, catalog)
    _print_wanted(pick, file)


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
    else:
        words.append(f"CPU runs {', '.join(isas)}" if isas else "CPU runs none of the instruction sets here")
    words.append(", ".join(counted) or ("no NVIDIA GPU" if facts.gpus else "GPUs unknown"))
    if host.sms:
        words.append("driver " + (str(host.driver) if host.driver else "unknown"))
    return "; ".join(words)


def _print_assigned(one: Assigned, pick: Pick, org: str) -> None:
    console, fit = out(), one.fit
    whom = f"  for {', '.join(map(str, one.gpus))}" if len(pick.choice.variants) > 1 else ""
    console.print(Text(fit.variant.name, style="bold green") + Text(whom), soft_wrap=True)
    for reason in fit.provided:
        say(f"  provided that {reason}", "yellow")
    if fit.idle and not fit.used:
        idle = ", ".join(map(str, fit.idle))
        say(f"  runs on the CPU alone and leaves {idle} idle", "yellow")
    for text in fit.reasons:
        say(f"  {text}")
    able = [isa for isa in pick.workload.isas if isa in {other.variant.isa for other in pick.ranking.fits}]
    if len(able) > 1 and pick.host.features is not None:
        say(f"  instruction sets for {pick.workload.name} use, the best first: {', '.join(able)}")
    for warning in fit.unproved:
        say(f"  not proved: {warning}", "yellow")
    install, build = install_command(fit.variant, org), build_commands(fit.variant)
    for label, command in (("install", install), ("build", build[0]), ("or", build[1])):
        console.print(Text(f"  {label:<8}", style="cyan") + Text(command), soft_wrap=True)
    own = [name for name in pick.companions if name.endswith(fit.variant.cell)]
    if own:
        console.print(Text("  with    ", style="cyan") + Text(" ".join(own)), soft_wrap=True)
    console.print()


def _print_missing(pick: Pick, catalog: Catalog) -> None:
    console, host = out(), pick.host
    systems = sorted({isa.platform for isa in catalog.isas.values()})
    if host.system is not None and host.system not in systems:
        say(f"no variant runs on {host.system}: all of them are for {' or '.join(systems)}")
        return
    if pick.found and not pick.choice.unserved and not host.unknown_gpus:
        return
    if pick.choice.unserved:
        say(f"no variant of this matrix uses {_titles(pick.choice.unserved, catalog)}; the nearest:")
    elif host.unknown_gpus:
        say(f"the architecture of {', '.join(host.unknown_gpus)} is unknown: give it, as in --gpu sm89")
        return
    else:
        say("no variant of this matrix runs on this machine; the nearest:")
    for miss in _nearest(pick):
        console.print(Text(f"  {miss[0]}", style="bold") + Text(f": {miss[1]}"), soft_wrap=True)


def _nearest(pick: Pick) -> list[tuple[str, str]]:
    """Misses that concern what is not served: GPU builds for a GPU, any build for a CPU."""
    misses = [miss for miss in pick.ranking.misses if not pick.choice.unserved or miss.variant.sm]
    return [(miss.variant.name, "; ".join(map(str, miss.reasons))) for miss in misses[:NEAREST]]


def _print_wanted(pick: Pick, file: FileOf) -> None:
    console = out()
    for fit in pick.wanted:
        compatible = pick.found and not pick.choice.unserved
        better = "would be compiled for this GPU" if compatible else "would run here"
        console.print(Text(fit.variant.name, style="bold") + Text(f" {better}; to make it:"), soft_wrap=True)
        for warning in fit.unproved:
            say(f"  not proved: {warning}", "yellow")
        for step in create_steps(fit.variant, file(fit.variant)):
            say(f"  {step}")


def _titles(sms: tuple[Sm, ...], catalog: Catalog) -> str:
    known = catalog.gpus
    return ", ".join(f"{sm} ({known[sm].title})" if sm in known else str(sm) for sm in sms)


def print_explanations(pick: Pick, catalog: Catalog) -> None:
    """Every other candidate and why not."""
    say(f"for {pick.workload.name} use: {pick.workload.why}", "dim")
    table = Table(box=None, pad_edge=False)
    table.add_column("not chosen", no_wrap=True)
    table.add_column("why")
    for name, why in _others(pick, catalog):
        table.add_row(Text(name), Text(why))
    out().print(table)


def _others(pick: Pick, catalog: Catalog) -> list[tuple[str, str]]:
    chosen = [one.fit for one in pick.choice.variants]
    best = chosen[0] if chosen else None
    runs = [
        (fit.variant.name, f"runs, but {why_after(fit, best, catalog, pick.workload)}" if best else "runs")
        for fit in pick.ranking.fits
        if fit not in chosen
    ]
    return runs + [(miss.variant.name, "; ".join(map(str, miss.reasons))) for miss in pick.ranking.misses]


class ChosenRow(TypedDict):
    """A variant for this machine, and how to have it."""

    name: str
    gpus: list[str]
    compiled_for: list[str]
    reasons: list[str]
    provided: list[str]
    unproved: list[str]
    install: str
    build: list[str]


class CreateRow(TypedDict):
    """A variant that would suit better, and the steps to it."""

    name: str
    steps: list[str]
    unproved: list[str]


class OtherRow(TypedDict):
    """A variant that was not chosen, and why."""

    name: str
    why: str


class PickDocument(TypedDict):
    """The answer, with the machine as `host --json` tells it."""

    host: dict[str, Any]
    gpus_known: bool
    workload: str
    choice: list[ChosenRow]
    unserved: list[str]
    companions: list[str]
    compiled_for_one: dict[str, str]
    create: list[CreateRow]
    others: list[OtherRow]


def pick_json(pick: Pick, catalog: Catalog, org: str, file: FileOf) -> PickDocument:
    """The whole answer as data."""
    return {
        "host": to_document(pick.facts),
        "gpus_known": pick.host.sms is not None,
        "workload": pick.workload.name,
        "choice": [_assigned_json(one, org) for one in pick.choice.variants],
        "unserved": [str(sm) for sm in pick.choice.unserved],
        "companions": list(pick.companions),
        "compiled_for_one": {str(sm): fit.variant.name for sm, fit in pick.exact},
        "create": [
            {
                "name": fit.variant.name,
                "steps": list(create_steps(fit.variant, file(fit.variant))),
                "unproved": [str(reason) for reason in fit.unproved],
            }
            for fit in pick.wanted
        ],
        "others": [{"name": name, "why": why} for name, why in _others(pick, catalog)],
    }


def _assigned_json(one: Assigned, org: str) -> ChosenRow:
    fit: Fits = one.fit
    return {
        "name": fit.variant.name,
        "gpus": [str(sm) for sm in one.gpus],
        "compiled_for": [str(sm) for sm in fit.exact],
        "reasons": list(fit.reasons),
        "provided": [str(reason) for reason in fit.provided],
        "unproved": [str(reason) for reason in fit.unproved],
        "install": install_command(fit.variant, org),
        "build": list(build_commands(fit.variant)),
    }
