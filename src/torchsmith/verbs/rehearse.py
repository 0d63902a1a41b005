"""`torchsmith rehearse`: finds in minutes what would stop a build of hours, and estimates its time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import msgspec

from torchsmith.artifact.check import Check, passed
from torchsmith.artifact.objects import check_objects
from torchsmith.building.by_name import workspace_record
from torchsmith.building.jobs import outputs_of
from torchsmith.building.rehearsal import PREFIX, RehearsalFigures, WholeBuild, read_figures, whole_build
from torchsmith.building.start import Prepared
from torchsmith.cli.build_screen import BuildTerminal
from torchsmith.cli.console import answer, exit_if, next_step, write
from torchsmith.cli.options import JsonOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Option
from torchsmith.core.problem import Exit, Incomplete
from torchsmith.core.text import counted, duration
from torchsmith.matrix import Variant
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Past
from torchsmith.repair.diagnose import Diagnosis
from torchsmith.verbs.build import RunRequest, prepare_build, run_prepared
from torchsmith.verbs.diagnose import print_diagnosis
from torchsmith.verbs.eval import print_failed
from torchsmith.verbs.verify import print_checks

EXAMPLE = (
    "torchsmith init b && torchsmith apply -w b &&"
    " torchsmith rehearse -w b sm120 pytorch --dry-run --nixpkgs sample"
)


@dataclass(frozen=True, kw_only=True)
class RehearseRequest(RunRequest):
    """Which recipes to rehearse, and with what."""

    dry_run: Annotated[bool, Option("Show what would be rehearsed and stop.")] = False


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """One rehearsal: what was compiled, what it shows, and what the whole would take."""

    name: str
    derivation: str
    output: str
    figures: RehearsalFigures
    whole: WholeBuild
    checks: tuple[Check, ...]


class RehearseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was rehearsed, what failed and why, and what does not evaluate."""

    FORMAT: ClassVar = 3
    rehearsals: list[Rehearsed]
    failed: dict[str, Diagnosis]
    broken: dict[str, Cause]
    planned: dict[str, str]  # with --dry-run: names and their derivations
    exit: Exit
    stopped: bool = False


def rehearse(request: RehearseRequest = RehearseRequest(), reporter: Reporter = SILENT) -> RehearseReport:
    """Configure builds as they are, compile a sample of each, and record what the whole would take."""
    if not request.recipes:
        raise Incomplete("name what to rehearse", hint="names, or selectors such as sm120 pytorch")
    spec = replace(request.spec, rehearse=True)
    with (
        workspace_record(request.workspace, read_only=request.dry_run) as (opened, record),
        closing(prepare_build(spec, opened, record, reporter)) as ready,
    ):
        graph = ready.graph
        assert graph is not None
        planned = {name.removeprefix(PREFIX): path for name, path in graph.recipes.items()}
        report = RehearseReport(
            rehearsals=[],
            failed={},
            broken=dict(ready.plan.broken),
            planned=planned,
            exit=exit_of(ready.plan.broken.values()),
        )
        if request.dry_run:
            return report
        finished = run_prepared(ready, reporter)
        failed = {name.removeprefix(PREFIX): why for name, why in finished.failed.items()}
        stopped = finished.state == "stopped"
        ended = [name for name in planned if name not in failed and PREFIX + name not in finished.skipped]
        rehearsals = [] if stopped else [_rehearsed(name, ready) for name in ended]
    right = all(passed(rehearsal.checks) for rehearsal in rehearsals)
    return msgspec.structs.replace(
        report,
        rehearsals=rehearsals,
        failed=failed,
        planned={},
        exit=finished.exit if right else Exit.CHECK_FAILED,
        stopped=stopped,
    )


def _rehearsed(name: str, ready: Prepared) -> Rehearsed:
    """What a rehearsal shows; the time that it predicts is recorded."""
    graph, nix = ready.graph, ready.nix
    assert graph is not None
    assert nix is not None
    path = graph.recipes[PREFIX + name]
    output = nix.store_file(outputs_of(graph.derivations[path])[0])
    figures = read_figures(output)
    catalog = ready.workspace.catalog
    variant = Variant.parse(name.rpartition("/")[2], catalog)
    whole = whole_build(figures, ready.plan.share.cores)
    past = Past(
        name=name,
        package=variant.package.name,
        gpu=variant.toolkit is not None,
        system=catalog.isas[variant.isa].platform,
        cores=whole.cores,
        seconds=whole.seconds,
        rehearsed=True,
    )
    ready.record.note_rehearsed(path, past)
    return Rehearsed(
        name=name,
        derivation=path,
        output=str(output),
        figures=figures,
        whole=whole,
        checks=tuple(check_objects(output / "objects", variant, catalog)),
    )


def run(*, request: RehearseRequest, json: JsonOption = False) -> None:
    """Configure a build, compile a sample of its objects, and predict the whole from them.

    The derivation is the recipe's own with another build phase: same environment, flags and patches; nothing
    is linked, installed or checked. The compiled objects, with the flags that they record, are compared with
    the name, and the time of the whole build is estimated for [bold]build --dry-run[/bold]. The exit code is
    1 when something fails or does not match the name, 3 when only downloads failed.
    """
    report = rehearse(request, Terminal() if json else BuildTerminal())
    answer(report, _print, as_json=json)
    if report.stopped:
        raise KeyboardInterrupt
    exit_if(report.exit)
    arguments = ["rehearse"] if request.dry_run else ["build", "--dry-run"]
    next_step(*arguments, *request.recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)


def _print(report: RehearseReport) -> None:
    print_failed(report.broken)
    for name, path in report.planned.items():
        write(name)
        write(f"  {path}", "dim")
    for rehearsal in report.rehearsals:
        _print_rehearsal(rehearsal)
    for name, diagnosis in report.failed.items():
        print_diagnosis(diagnosis, name)


def _print_rehearsal(rehearsal: Rehearsed) -> None:
    """What to know before a build of hours."""
    figures, estimate = rehearsal.figures, rehearsal.whole
    write(rehearsal.name, "bold")
    write(
        f"  configured in {figures.configure_seconds:.0f} s; compiled {len(figures.compiled)} of"
        f" {counted(figures.objects, 'object')} in {figures.compile_seconds:.0f} s"
        f" ({figures.cpu_seconds:.0f} s of CPU)"
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in figures.counts.items())
    write(
        f"  the whole ({kinds}) would take about {duration(estimate.seconds)}"
        f" on {counted(estimate.cores, 'core')} here,"
        f" {estimate.core_seconds / 3600:.1f} core hours, without linking;"
        f" the sample leaves ±{estimate.error:.0%}"
    )
    print_checks(rehearsal.checks, "  ")
