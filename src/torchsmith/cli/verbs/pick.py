"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from torchsmith.api.choosing import (
    ChosenRow,
    PickReport,
    PickRequest,
    first_manifest,
    pick,
    write_missing,
)
from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import columns, command, exit_if, paint, print_commands, print_json, warn, write
from torchsmith.core.problem import Conflict

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"
MAX_NOTES = 3  # that are shown without --explain


def run(
    *,
    request: PickRequest,
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
    if no variant runs, or none uses a GPU of the machine.
    """
    if manifest + names + json > 1:
        raise Conflict("--manifest, --names and --json exclude each other", hint="give one of them")
    if create is not None:
        from torchsmith.host.matrix_file import check_free

        check_free(create)
    report = pick(replace(request, explain=True) if json else request)
    if manifest:
        sys.stdout.write(first_manifest(report))
    elif names:
        sys.stdout.write("".join(f"{chosen.name}\n" for chosen in report.choice))
    elif json:
        print_json(report, sort=True)
    else:
        _print_report(report)
        if request.explain:
            write(f"for {report.workload} use: {report.workload_why}", "dim")
            write()
            others = [(row.name, row.why) for row in report.others]
            columns([[("not chosen", "cyan"), ("why", "cyan")], *others])
        _print_notes(report, everything=request.explain)
    if create is not None:
        write_missing(create, report, request)
        warn(f"written: {create}")
    exit_if(not report.served)


def _print_report(report: PickReport) -> None:
    """The machine in a line, the answer with its commands, what is missing, and what serves until then."""
    write(report.machine, "dim")
    write()
    if not report.served:  # a build that uses the GPU comes before one that leaves it idle
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
    for text in report.remarks:
        write(text, "yellow")
    for sm, name in report.compiled_for_one.items():
        write(f"for {sm} alone, {name} is compiled for it")
    if report.served:
        _print_missing(report)
    for wheel in report.wheels:
        kind = f"CUDA {wheel.cuda}" if wheel.cuda else f"ROCm {wheel.rocm}" if wheel.rocm else wheel.gpu
        kind = kind or "the CPU alone"
        write(f"without a build of your own: PyTorch's wheel of {wheel.torch} for {kind}", "bold")
        for text in wheel.provided:
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
    for text in chosen.provided:
        write(f"  provided that {text}", "yellow")
    if chosen.idle:
        write(f"  runs on the CPU alone and leaves {', '.join(map(str, chosen.idle))} idle", "yellow")
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
    """What is not served, what comes nearest, and what to make."""
    for text in report.missing:
        last = report.nearest and text == report.missing[-1]
        write(f"{text}; the nearest:" if last else text, "" if last else "yellow")
    for row in report.nearest:
        write(f"  {paint(row.name, 'bold')}")
        write(f"    {row.why}")
    for row in report.impossible:
        write(f"{row.name} cannot be: {row.why}", "yellow")
    better = "would be compiled for this GPU" if report.served else "would run here"
    for wanted in report.create:
        write(f"{paint(wanted.name, 'bold green')} {better}; to make it:")
        for text in wanted.provided:
            write(f"  provided that {text}", "yellow")
        for text in wanted.unproved:
            write(f"  not proved: {text}", "yellow")
        write(f"  to build: {wanted.cost}" + " (coarse estimates)" * bool(wanted.cost.cores))
        if wanted.file:
            then = command("generate", workspace=Path(wanted.file).parent)
            write(f'  add "{wanted.name}" to include in {wanted.file}, then: {then}; or in a new workspace:')
        print_commands(wanted.commands)
        write()
    if not report.served:
        _print_drivers(report)


def _print_drivers(report: PickReport) -> None:
    """What a machine whose driver is unknown would get with a newer one."""
    for driver, names in report.by_driver.items():
        write(f"with driver {driver} or newer: {', '.join(names)}")
    for system, names in report.by_system.items():
        write(f"on {system}: {', '.join(names)}")
    if report.by_driver or report.by_system:
        write()


def _print_notes(report: PickReport, *, everything: bool) -> None:
    """What was not used, and why: the first few, unless all of them are asked for."""
    notes = [note for note in report.host.notes if report.choice or not note.gpu]
    shown = notes if everything or len(notes) <= MAX_NOTES else notes[: MAX_NOTES - 1]
    for note in shown:
        warn(f"note: {note}")
    if len(shown) < len(notes):
        warn(f"note: {len(notes) - len(shown)} more: --explain")
