"""What `rehearse` does between its options and its answer: plan, run, read the objects, reckon."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from torchsmith.api.nix_options import tree_words
from torchsmith.artifact.check import Check, passed
from torchsmith.artifact.commands import CompilerUse, read_commands, uses
from torchsmith.artifact.objects import check_objects
from torchsmith.building.jobs import outputs_of
from torchsmith.building.rehearsal import (
    PREFIX,
    RehearsalFigures,
    Rehearsals,
    WholeBuild,
    read_figures,
    whole_build,
)
from torchsmith.building.start import BuildRequest, Prepared
from torchsmith.cli.artifact_view import print_checks
from torchsmith.cli.build_run import exit_of_run, prepared, print_broken
from torchsmith.cli.build_view import watching
from torchsmith.cli.console import command, err, print_json, write
from torchsmith.cli.remaining import duration
from torchsmith.cli.verbs.diagnose import print_diagnosis
from torchsmith.core.problem import Exit, Lacking
from torchsmith.matrix import Variant
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Past, Record
from torchsmith.repair.diagnose import Diagnosis
from torchsmith.workspace.load import Workspace

FLAGS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """One rehearsal: what was compiled, what it shows, and what the whole would take."""

    name: str
    stands_for: tuple[str, ...]  # all recipes that configure alike, this one among them
    derivation: str
    output: str
    figures: RehearsalFigures
    whole: WholeBuild
    compilers: tuple[CompilerUse, ...]
    checks: tuple[Check, ...]


class RehearseDocument(msgspec.Struct, frozen=True):
    """What was rehearsed, what failed and why, what waits for its torch, and what does not evaluate."""

    rehearsals: list[RehearsalReport]
    failed: dict[str, Diagnosis]
    waiting: dict[str, str]
    broken: dict[str, str]
    planned: dict[str, str]  # with --dry-run: names and their derivations


def rehearse(
    request: BuildRequest,
    workspace: Workspace,
    record: Record,
    *,
    dry_run: bool,
    every: bool,
    as_json: bool,
) -> Exit:
    """Rehearse, and say how it went."""
    ready = prepared(request, workspace, record)
    chosen = ready.rehearsals
    assert chosen is not None
    if not every:
        _refuse_waiting(chosen)
    graph = ready.plan.graph
    assert graph is not None
    planned = {name.removeprefix(PREFIX): path for name, path in graph.recipes.items()}
    broken = {one.name: one.why for one in ready.plan.broken}
    if dry_run:
        if as_json:
            print_json(RehearseDocument([], {}, dict(chosen.waiting), broken, planned))
        else:
            _print_planned(ready, planned, chosen)
        return exit_of(broken.values())
    ready.check()
    with watching(ready.plan, err(), as_json=False, slots=ready.limits().total) as show:
        finished = ready.run(show if not as_json else lambda event: None)
    failed = {name.removeprefix(PREFIX): found for name, found in finished.failed.items()}
    done = [name for name in planned if name not in failed and PREFIX + name not in finished.skipped]
    reports = [_report(name, ready, chosen) for name in done] if finished.state != "stopped" else []
    for report in reports:
        _write_down(report, ready)
    if as_json:
        print_json(RehearseDocument(reports, failed, dict(chosen.waiting), broken, {}))
    else:
        print_broken(ready.plan, write)
        for report in reports:
            print_rehearsal(report)
        for name, found in failed.items():
            print_diagnosis(found, name)
        _print_waiting(chosen)
    if finished.state == "stopped":
        raise KeyboardInterrupt
    right = all(passed(report.checks) for report in reports)
    return exit_of_run(finished, ready.plan) if right else Exit.NOT_RIGHT


def _refuse_waiting(chosen: Rehearsals) -> None:
    for name, torch in chosen.waiting.items():
        cell = name.rpartition("/")[2].partition("-")[2]
        raise Lacking(
            f"{name} is compiled against {torch}, which is not built: its rehearsal would build it first",
            hint=f"rehearse pytorch-{cell}, which compiles a sample; build it; then this",
        )


def _print_planned(ready: Prepared, planned: dict[str, str], chosen: Rehearsals) -> None:
    print_broken(ready.plan, write)
    for name, path in planned.items():
        more = len(chosen.alike[name]) - 1
        words = f" (stands for {more} more that configure alike)" if more else ""
        write(f"{name}{words}")
        write(f"  {path}", "dim")
    _print_waiting(chosen)
    if planned:
        name = next(iter(planned))
        write("what differs:")
        where, trees = ready.request.workspace, tree_words(ready.request.trees)
        said = command("diff-drv", name, f"{PREFIX}{name}", workspace=where, nixpkgs=trees)
        write(f"  {said}", whole=True)


def _print_waiting(chosen: Rehearsals) -> None:
    for name, torch in chosen.waiting.items():
        write(f"– {name} waits for {torch}, which is not built", "yellow")


def _report(name: str, ready: Prepared, chosen: Rehearsals) -> RehearsalReport:
    graph = ready.plan.graph
    assert graph is not None
    path = graph.recipes[PREFIX + name]
    assert ready.nix is not None
    output = ready.nix.store_file(outputs_of(graph.derivations[path])[0])
    figures = read_figures(output)
    commands = read_commands(output / "compile_commands.json")
    catalog = ready.workspace.catalog
    variant = Variant.parse(name.rpartition("/")[2], catalog)
    return RehearsalReport(
        name=name,
        stands_for=chosen.alike[name],
        derivation=path,
        output=str(output),
        figures=figures,
        whole=whole_build(figures, ready.plan.share.cores),
        compilers=tuple(uses(commands)),
        checks=tuple(check_objects(output / "objects", commands, variant, catalog)),
    )


def _write_down(report: RehearsalReport, ready: Prepared) -> None:
    """What the builds would take, for every recipe that this one stands for."""
    catalog = ready.workspace.catalog
    for name in report.stands_for:
        variant = Variant.parse(name.rpartition("/")[2], catalog)
        isa = catalog.isas[variant.isa]
        says = Past(
            name=name,
            package=variant.package.name,
            gpu=variant.cuda is not None,
            system=isa.platform,
            cores=report.whole.cores,
            seconds=report.whole.seconds,
            rehearsed=True,
        )
        ready.record.note_rehearsed(report.derivation, says)


def print_rehearsal(report: RehearsalReport) -> None:
    """What a person wants to know before hours are spent."""
    figures, whole = report.figures, report.whole
    write(report.name, "bold")
    if len(report.stands_for) > 1:
        write(f"  stands for {len(report.stands_for)} recipes that configure alike")
    write(
        f"  configured in {figures.configure_seconds:.0f} s; compiled {len(figures.compiled)} of"
        f" {figures.objects} objects in {figures.compile_seconds:.0f} s ({figures.cpu_seconds:.0f} s of CPU)"
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures.counts.items())
    write(
        f"  the whole ({kinds}) would take about {duration(whole.seconds)} on {whole.cores} cores here,"
        f" {whole.core_seconds / 3600:.1f} core hours, without linking; the sample leaves ±{whole.error:.0%}"
    )
    for compiler in report.compilers:
        write(f"  {_flags(compiler)}", "dim")
    print_checks(report.checks, "  ")


def _flags(use: CompilerUse) -> str:
    def told(flags: dict[str, int]) -> str:
        shown = [
            flag if count == use.objects else f"{flag} ({count})"
            for flag, count in list(flags.items())[:FLAGS_SHOWN]
        ]
        return " ".join(shown) or "none of note"

    host = f"; to the CPU's compiler {told(use.host_flags)}" if use.compiler == "nvcc" else ""
    return f"{use.compiler}: {use.objects} objects, {told(use.flags)}{host}"
