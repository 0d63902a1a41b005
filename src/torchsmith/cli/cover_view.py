"""A plan for a fleet, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from torchsmith.cli.console import out, say, warn
from torchsmith.host.cover import Cover, Plan, Served
from torchsmith.host.fleet import Fleet

SHOWN = 12


def count(machines: float) -> str:
    """Machines as people write them; a machine with two kinds of GPU may count half."""
    return f"{machines:,.0f}" if machines == int(machines) else f"{machines:,.1f}"


def print_answer(cover: Cover, plan: Plan, plans: Sequence[Plan], *, limited: bool) -> None:
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
    fleet, different = cover.fleet, len(cover.demands)
    say(f"{count(fleet.machines)} machines in {len(fleet.kinds):,} entries, {different} of them different")
    say(f"{len(cover.cells)} candidates")
    _print_unread(fleet)


def _print_unread(fleet: Fleet) -> None:
    for unread in fleet.unread[:SHOWN]:
        warn(f"not read: {unread.where}: {unread.why}")
    if len(fleet.unread) > SHOWN:
        warn(f"not read: {len(fleet.unread) - SHOWN} more")
    if fleet.unused_columns:
        warn(f"columns not used: {', '.join(fleet.unused_columns)}")


def _print_plan(plan: Plan, cover: Cover, title: str) -> None:
    """The variants, whom they serve, and what they cost."""
    proof = "proved optimal" if plan.proof.optimal else f"not proved, gap {plan.proof.gap:.2%}"
    say("")
    say(f"{title} ({proof} in {plan.proof.seconds:.2f} s)", "bold")
    table = Table(box=None, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    table.add_column("machines", justify="right")
    table.add_column("of these slower", justify="right")
    for cell in plan.cells:
        own = [one for one in plan.served if one.cell is cell]
        slower = sum(one.demand.machines for one in own if one.slower)
        table.add_row(cell.name, count(sum(one.demand.machines for one in own)), count(slower))
    out().print(table)
    say(
        f"{count(plan.best + plan.slower)} machines served: {count(plan.best)} as well as possible,"
        f" {count(plan.slower)} slower; {count(plan.unserved)} not at all"
    )
    bill = plan.bill
    say(
        f"to build: about {bill.hours:.1f} h one after the other, {bill.build_gb:.0f} GB free while building,"
        f" {bill.store_gb:.1f} GB kept (coarse estimates for {', '.join(map(str, cover.packages))})"
    )


def _print_shortcomings(plan: Plan, cover: Cover) -> None:
    """Machines that run slower than they could, and machines that nothing serves, with why."""
    slower = sorted((one for one in plan.served if one.slower), key=lambda one: -one.demand.machines)
    lost = sorted((one for one in plan.served if one.cell is None), key=lambda one: -one.demand.machines)
    for title, rows in (("slower", slower), ("not served", lost)):
        if rows:
            say("")
            say(title, "bold")
        for one in rows[:SHOWN]:
            why = cover.why_slower(one) if one.cell else cover.why_unserved(one.demand)
            say(f"  {count(one.demand.machines)} x {one.demand.label}: {why}")
        if len(rows) > SHOWN:
            say(f"  {len(rows) - SHOWN} more (all of them with --json)")
    assumed: dict[str, float] = {}
    for one in plan.served:
        for text in one.demand.assumed if one.cell else ():
            assumed[text] = assumed.get(text, 0.0) + one.demand.machines
    for text, machines in assumed.items():
        warn(f"assumed for {count(machines)} machines: {text}")


def _print_curve(plans: Sequence[Plan]) -> None:
    """What each further variant buys."""
    say("")
    say("the best plan of each size", "bold")
    table = Table(box=None, pad_edge=False)
    for name in ("variants", "served", "at their best", "hours", "GB kept"):
        table.add_column(name, justify="right")
    table.add_column("comes in (goes out)", overflow="fold")
    before: set[str] = set()
    for plan in plans:
        names = {cell.name for cell in plan.cells}
        change = [*sorted(names - before), *(f"({name})" for name in sorted(before - names))]
        served = count(plan.best + plan.slower)
        bill = plan.bill
        table.add_row(
            str(len(plan.cells)),
            served,
            count(plan.best),
            f"{bill.hours:.1f}",
            f"{bill.store_gb:.1f}",
            " ".join(change),
        )
        before = names
    out().print(table)


def cover_json(cover: Cover, plan: Plan, plans: Sequence[Plan]) -> dict[str, Any]:
    """Everything as data."""
    fleet = cover.fleet
    return {
        "machines": fleet.machines,
        "entries": len(fleet.kinds),
        "demands": len(cover.demands),
        "candidates": len(cover.cells),
        "not_read": [{"where": str(unread.where), "why": unread.why} for unread in fleet.unread],
        "columns_not_used": list(fleet.unused_columns),
        "plan": _plan_json(plan) | {"machines": [_served_json(one, cover) for one in plan.served]},
        "curve": [_plan_json(one) for one in plans],
    }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "variants": [cell.name for cell in plan.cells],
        "at_their_best": plan.best,
        "slower": plan.slower,
        "not_served": plan.unserved,
        "hours": round(plan.bill.hours, 2),
        "build_gb": plan.bill.build_gb,
        "store_gb": round(plan.bill.store_gb, 2),
        "proof": {"status": plan.proof.status, "gap": plan.proof.gap, "optimal": plan.proof.optimal},
    }


def _served_json(one: Served, cover: Cover) -> dict[str, Any]:
    demand = one.demand
    why = cover.why_slower(one) if one.slower else cover.why_unserved(demand) if one.cell is None else ""
    return {
        "machines": demand.machines,
        "weight": demand.weight,
        "kinds": list(demand.kinds),
        "gpus": [str(sm) for sm in demand.host.sms or ()],
        "driver": str(demand.host.driver) if demand.host.driver else None,
        "variant": one.cell.name if one.cell else None,
        "why": why,
        "assumed": list(demand.assumed),
    }
