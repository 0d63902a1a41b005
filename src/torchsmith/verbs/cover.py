"""`torchsmith cover FLEET`: which variants to build for many machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from torchsmith.api.covering import CoverPlan, CoverReport, CoverRequest, cover, write_plan
from torchsmith.cli.console import exit_if, next_step, print_commands, print_json, table, warn
from torchsmith.cli.console import write as say
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption, SvgOption
from torchsmith.core.text import counted
from torchsmith.host.matrix_file import check_free
from torchsmith.verbs.svg import check_svg, write_svg

EXAMPLE = "torchsmith cover sample --curve 8"
MAX_SHOWN = 12  # entries not read, and machines that a plan leaves behind


def run(
    *,
    request: CoverRequest,
    write: Annotated[Path | None, Option("Write the plan as a torchsmith.toml.", metavar="FILE")] = None,
    force: Annotated[bool, Option("Replace the file of --write.")] = False,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Choose the fewest variants that serve every machine of a fleet, or the best few, proved optimal.

    The candidates are the variants of the workspace, or without one all that can be built. The exit code is 1
    if a machine is not served or an entry of the inventory could not be read.
    """
    check_svg(svg)
    if write is not None:
        check_free(write, replace=force)
    report = cover(request)
    if json:
        print_json(report)
    else:
        _print_report(report, limited=request.best > 0)
    if svg is not None:
        from torchsmith.page.document import PageCover
        from torchsmith.page.pictures import cover_curve

        drawn = report.curve or cover(replace(request, curve=max(len(report.plan.variants), 1))).curve
        points = ((len(plan.variants), plan.served, plan.at_their_best) for plan in drawn)
        write_svg(cover_curve(PageCover(report.machines, tuple(points))), svg)
    if write is not None:
        write_plan(write, report, request, replace=force)
    if not json and write is not None:
        warn(f"written: {write}")
        next_step("apply", workspace=write.parent if write.name == "torchsmith.toml" else write)
    elif report.plan.variants:
        next_step("cover", *sys.argv[2:], "--write", "builds/torchsmith.toml", why="as a workspace")
    exit_if(not report.ok)


def _print_report(report: CoverReport, *, limited: bool) -> None:
    """The fleet, the plan, whom it leaves behind, and the best plans of each size."""
    entries = "1 entry" if report.entries == 1 else f"{report.entries:,} entries"
    say(f"{_machines(report.machines)} in {entries}, of {counted(report.different, 'kind')}")
    say(counted(report.candidates, "candidate"))
    for unread in report.not_read[:MAX_SHOWN]:
        warn(f"not read: {unread.where}: {unread.why}")
    if len(report.not_read) > MAX_SHOWN:
        warn(f"not read: {len(report.not_read) - MAX_SHOWN} more")
    if report.columns_not_used:
        warn(f"columns not used: {', '.join(report.columns_not_used)}")
    size = len(report.plan.variants)
    what = "1 variant, which serves" if size == 1 else f"{size} variants, the fewest that serve"
    fewest = f"{what} every machine that any candidate serves"
    best = "the best variant" if size == 1 else f"the best {size} variants"
    _print_plan(report, best if limited else fewest)
    _print_shortcomings(report)
    if report.curve:
        _print_curve(report.curve)


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number:,} machines"


def _print_plan(report: CoverReport, title: str) -> None:
    """The variants, whom they serve, and what they cost."""
    plan, proof = report.plan, report.plan.proof
    if not plan.variants:
        say()
        say("no candidate serves any of these machines", "bold")
        return
    sure = "proved optimal" if proof.optimal else f"not proved, gap {proof.gap:.2%}"
    say()
    say(f"{title} ({sure} in {proof.seconds:.2f} s)", "bold")
    rows = [(use.variant, f"{use.machines:,}", f"{use.slower:,}") for use in report.uses]
    table(("variant", "machines", "of these slower"), rows, right=("machines", "of these slower"))
    left = f"{plan.not_served:,} not served"
    if plan.in_part:
        left += f" ({plan.in_part:,} of them on some of their GPUs)"
    best = f"{plan.at_their_best:,} as well as possible"
    say(f"{_machines(plan.served)} served: {best}, {plan.slower:,} slower; {left}")
    if not plan.cores:
        say(f"to build: {plan.cost}")
        return
    unknown = report.not_estimated
    known = ", ".join(name for name in report.packages if name not in unknown)
    without = f"; nobody knows those of {', '.join(unknown)}" if unknown else ""
    say(f"to build, one after the other: {plan.cost} (coarse estimates for {known}{without})")


def _print_shortcomings(report: CoverReport) -> None:
    """Machines that run slower than they could, and machines that nothing serves, with why."""
    lacking = sorted((row for row in report.served if row.why), key=lambda row: -row.machines)
    slower = [row for row in lacking if row.variant]
    lost = [row for row in lacking if not row.variant]
    for title, rows in (("slower", slower), ("not served", lost)):
        if rows:
            say()
            say(title, "bold")
        for row in rows[:MAX_SHOWN]:
            say(f"  {row.machines:,} x {row.label}: {row.why}")
        if len(rows) > MAX_SHOWN:
            say(f"  {len(rows) - MAX_SHOWN} more (all of them with --json)")
    if report.create:
        say("to make what is missing:")
        print_commands(report.create)
    for text, machines in report.assumed.items():
        warn(f"assumed for {_machines(machines)}: {text}")
    if report.unknown_gpus:
        warn(f"GPUs of {_machines(report.unknown_gpus)} are unknown: they get a build for the CPU alone")


def _print_curve(plans: Sequence[CoverPlan]) -> None:
    """What each further variant buys."""
    say()
    say("the best plan of each size", "bold")
    figures, moves = ("variants", "served", "at their best", "hours", "GB kept"), "added (removed)"
    rows = []
    before: set[str] = set()
    for plan in plans:
        names = set(plan.variants)
        change = [*sorted(names - before), *(f"({name})" for name in sorted(before - names))]
        costs = (f"{plan.hours:.1f}", f"{plan.store_gb:.1f}")
        served = (f"{plan.served:,}", f"{plan.at_their_best:,}")
        rows.append([str(len(names)), *served, *costs, " ".join(change)])
        before = names
    table((*figures, moves), rows, right=figures, broken=(moves,))
