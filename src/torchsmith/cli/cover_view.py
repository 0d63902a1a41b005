"""A plan for a fleet, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchsmith.catalog import Sm
from torchsmith.catalog.axes import DriverVersion
from torchsmith.cli.console import table, warn, write
from torchsmith.cli.svg import write_svg
from torchsmith.core.words import counted
from torchsmith.host.cover import Cover, FleetPlan, Served
from torchsmith.matrix import Cell

SHOWN = 12


def print_answer(cover: Cover, plan: FleetPlan, plans: Sequence[FleetPlan], *, limited: bool) -> None:
    """The fleet, the plan, whom it leaves behind, and the best plans of each size."""
    size = len(plan.cells)
    fewest = f"the fewest variants that serve all that can be served: {size}"
    _print_fleet(cover)
    _print_plan(plan, cover, f"the best {size} variants" if limited else fewest)
    _print_shortcomings(plan, cover)
    if plans:
        _print_curve(plans)


def _print_fleet(cover: Cover) -> None:
    """What was read, and what was not."""
    fleet, different = cover.fleet, len(cover.groups)
    entries = "1 entry" if len(fleet.kinds) == 1 else f"{len(fleet.kinds):,} entries"
    write(f"{_machines(fleet.machines)} in {entries}, {different} of them different")
    write(f"{counted(len(cover.cells), 'candidate')}")
    for unread in fleet.unread[:SHOWN]:
        warn(f"not read: {unread.where}: {unread.why}")
    if len(fleet.unread) > SHOWN:
        warn(f"not read: {len(fleet.unread) - SHOWN} more")
    if fleet.unused_columns:
        warn(f"columns not used: {', '.join(fleet.unused_columns)}")


def _machines(number: float) -> str:
    return "1 machine" if number == 1 else f"{number:,} machines"


def _print_plan(plan: FleetPlan, cover: Cover, title: str) -> None:
    """The variants, whom they serve, and what they cost."""
    proof = "proved optimal" if plan.proof.optimal else f"not proved, gap {plan.proof.gap:.2%}"
    write()
    write(f"{title} ({proof} in {plan.proof.seconds:.2f} s)", "bold")
    rows = [[cell.name, *(f"{number:,}" for number in _users(plan, cell))] for cell in plan.cells]
    table(("variant", "machines", "of these slower"), rows, right=("machines", "of these slower"))
    write(
        f"{_machines(plan.best + plan.slower)} served: {plan.best:,} as well as possible,"
        f" {plan.slower:,} slower; {_unserved(plan)}"
    )
    bill = plan.bill
    unknown = [one.name for one in cover.packages if any(name.startswith(f"{one}-") for name in bill.unknown)]
    known = ", ".join(one.name for one in cover.packages if one.name not in unknown)
    without = f"; nobody knows those of {', '.join(unknown)}" if unknown else ""
    write(
        f"to build: about {bill.hours:.1f} h one after the other, {bill.build_gb:.0f} GB free while building,"
        f" {bill.store_gb:.1f} GB kept (coarse estimates for {known}{without})"
    )


def _print_shortcomings(plan: FleetPlan, cover: Cover) -> None:
    """Machines that run slower than they could, and machines that nothing serves, with why."""
    slower = sorted((one for one in plan.served if one.slower), key=lambda one: -one.demand.machines)
    lost = sorted((one for one in plan.served if one.cell is None), key=lambda one: -one.demand.machines)
    for title, rows in (("slower", slower), ("not served", lost)):
        if rows:
            write()
            write(title, "bold")
        for one in rows[:SHOWN]:
            why = cover.why_slower(one) if one.cell else cover.why_unserved(one.demand)
            write(f"  {one.demand.machines:,} x {one.demand.label}: {why}")
        if len(rows) > SHOWN:
            write(f"  {len(rows) - SHOWN} more (all of them with --json)")
    _print_assumed(plan)


def _print_assumed(plan: FleetPlan) -> None:
    """What the chosen variants need that the inventory does not say."""
    for text in dict.fromkeys(text for one in plan.served for text in one.assumed):
        warn(f"assumed for {_machines(_assuming(plan, text))}: {text}")
    blind = plan.machines(lambda all_: any(one.cell and one.demand.host.sms is None for one in all_))
    if blind:
        warn(f"GPUs of {_machines(blind)} are unknown: they get a build for the CPU alone")


def _users(plan: FleetPlan, cell: Cell) -> tuple[int, int]:
    """Machines that get a variant, and how many of them run slower with it than they could."""
    return (
        plan.machines(lambda all_: any(one.cell is cell for one in all_)),
        plan.machines(lambda all_: any(one.cell is cell and one.slower for one in all_)),
    )


def _assuming(plan: FleetPlan, text: str) -> int:
    return plan.machines(lambda all_: any(text in one.assumed for one in all_))


def _unserved(plan: FleetPlan) -> str:
    in_part = f" ({plan.in_part:,} of them on some of their GPUs)" if plan.in_part else ""
    return f"{plan.unserved:,} not served{in_part}" if in_part else f"{plan.unserved:,} not at all"


def _print_curve(plans: Sequence[FleetPlan]) -> None:
    """What each further variant buys."""
    write()
    write("the best plan of each size", "bold")
    figures, moves = ("variants", "served", "at their best", "hours", "GB kept"), "comes in (goes out)"
    rows = []
    before: set[str] = set()
    for plan in plans:
        names = {cell.name for cell in plan.cells}
        change = [*sorted(names - before), *(f"({name})" for name in sorted(before - names))]
        served, hours, kept = plan.best + plan.slower, plan.bill.hours, plan.bill.store_gb
        told = (f"{served:,}", f"{plan.best:,}", f"{hours:.1f}", f"{kept:.1f}", " ".join(change))
        rows.append([str(len(plan.cells)), *told])
        before = names
    table((*figures, moves), rows, right=figures, broken=(moves,))


def draw(cover: Cover, plan: FleetPlan, plans: Sequence[FleetPlan], svg: Path | None) -> None:
    """The best plan of each size as a curve, where a picture is asked for."""
    if svg is None:
        return
    from torchsmith.page.pictures import cover_curve, cover_points

    drawn = plans or cover.curve(max(len(plan.cells), 1))
    write_svg(cover_curve(cover_points(drawn, cover.fleet.machines)), svg)


class ProofRow(msgspec.Struct, frozen=True):
    """How sure it is that no plan is better."""

    status: str
    gap: float
    optimal: bool


class CoverPlan(msgspec.Struct, frozen=True):
    """Variants, whom they serve and what they cost."""

    variants: list[str]
    at_their_best: int
    slower: int
    not_served: int
    hours: float
    build_gb: float
    store_gb: float
    proof: ProofRow


class ServedRow(msgspec.Struct, frozen=True):
    """Machines that are alike, and the variant that they get."""

    machines: int
    weight: float
    kinds: Sequence[str]
    gpus: Sequence[Sm] | None
    driver: DriverVersion | None
    variant: str | None
    why: str
    assumed: Sequence[str]


class ChosenPlan(CoverPlan, frozen=True):
    """The plan, machine by machine."""

    machines: list[ServedRow]


class UnreadRow(msgspec.Struct, frozen=True):
    """An entry of the inventory that could not be read."""

    where: str
    why: str


class CoverDocument(msgspec.Struct, frozen=True):
    """A plan for a fleet, and with --curve the best plan of each size."""

    machines: int
    entries: int
    different: int
    demands: int
    candidates: int
    not_read: list[UnreadRow]
    columns_not_used: Sequence[str]
    plan: ChosenPlan
    curve: list[CoverPlan]


def cover_json(cover: Cover, plan: FleetPlan, plans: Sequence[FleetPlan]) -> CoverDocument:
    """Everything as data."""
    fleet = cover.fleet
    counts = (fleet.machines, len(fleet.kinds), len(cover.groups), len(cover.demands), len(cover.cells))
    unread = [UnreadRow(str(one.where), one.why) for one in fleet.unread]
    served = [_served_row(one, cover) for one in plan.served]
    chosen = ChosenPlan(**msgspec.structs.asdict(_plan_row(plan)), machines=served)
    return CoverDocument(*counts, unread, fleet.unused_columns, chosen, [_plan_row(one) for one in plans])


def _plan_row(plan: FleetPlan) -> CoverPlan:
    bill, proof = plan.bill, plan.proof
    machines = (plan.best, plan.slower, plan.unserved)
    costs = (round(bill.hours, 2), bill.build_gb, round(bill.store_gb, 2))
    sure = ProofRow(proof.status, proof.gap, proof.optimal)
    return CoverPlan([cell.name for cell in plan.cells], *machines, *costs, sure)


def _served_row(one: Served, cover: Cover) -> ServedRow:
    demand, host = one.demand, one.demand.host
    why = cover.why_slower(one) if one.slower else cover.why_unserved(demand) if one.cell is None else ""
    machine = (demand.machines, demand.weight, demand.kinds, host.sms, host.driver)
    return ServedRow(*machine, one.cell.name if one.cell else None, why, one.assumed)
