"""`torchsmith rehearse`: in minutes what a build of hours would stumble over, and what it would take."""

from __future__ import annotations

from torchsmith.api.rehearsing import Rehearsed, RehearseReport, RehearseRequest, rehearse
from torchsmith.artifact.commands import CompilerUse
from torchsmith.cli.console import answer, exit_if, next_step, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import counted, duration
from torchsmith.verbs.artifact_view import print_checks
from torchsmith.verbs.build_view import BuildTerminal, print_broken
from torchsmith.verbs.diagnose import print_diagnosis
from torchsmith.verbs.progress import Terminal

EXAMPLE = (
    "torchsmith init b && torchsmith apply -w b &&"
    " torchsmith rehearse -w b sm120 pytorch --dry-run --nixpkgs sample"
)
FLAGS_SHOWN = 8


def run(*, request: RehearseRequest, json: JsonOption = False) -> None:
    """Configure a build, compile a sample of its objects, and predict the whole from them.

    The derivation is the recipe's own with another build phase: same environment, flags and patches; nothing
    is linked, installed or checked. The compiled objects and the flags of all objects are checked against the
    name, and the time of the whole build is estimated for [bold]build --dry-run[/bold]. The exit code is 1
    when something fails or does not match the name, 3 when only downloads failed.
    """
    if json:
        report = rehearse(request, Terminal())
    else:
        with BuildTerminal(plan=False) as terminal:
            report = rehearse(request, terminal)
    answer(report, _print, as_json=json)
    if report.stopped:
        raise KeyboardInterrupt
    exit_if(report.exit)
    arguments = ["rehearse", *["--all"] * request.every] if request.dry_run else ["build", "--dry-run"]
    next_step(*arguments, *request.recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)


def _print(report: RehearseReport) -> None:
    print_broken(report.broken)
    for name, path in report.planned.items():
        more = len(report.alike[name]) - 1
        write(name + (f" (stands for {more} more that configure alike)" if more else ""))
        write(f"  {path}", "dim")
    for rehearsal in report.rehearsals:
        _print_rehearsal(rehearsal)
    for name, diagnosis in report.failed.items():
        print_diagnosis(diagnosis, name)
    for name, torch in report.waiting.items():
        write(f"– {name} waits for {torch}, which is not built", "yellow")


def _print_rehearsal(rehearsal: Rehearsed) -> None:
    """What a person wants to know before hours are spent."""
    figures, estimate = rehearsal.figures, rehearsal.whole
    write(rehearsal.name, "bold")
    if len(rehearsal.stands_for) > 1:
        write(f"  stands for {counted(len(rehearsal.stands_for), 'recipe')} configured alike")
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
    for compiler in rehearsal.compilers:
        write(f"  {_flags(compiler)}", "dim")
    print_checks(rehearsal.checks, "  ")


def _flags(use: CompilerUse) -> str:
    def listed(flags: dict[str, int]) -> str:
        parts = [
            flag if count == use.objects else f"{flag} ({count})"
            for flag, count in list(flags.items())[:FLAGS_SHOWN]
        ]
        return " ".join(parts) or "none of note"

    host = f"; to the CPU's compiler {listed(use.host_flags)}" if use.compiler == "nvcc" else ""
    return f"{use.compiler}: {counted(use.objects, 'object')}, {listed(use.flags)}{host}"
