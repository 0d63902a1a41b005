"""Cover on random fleets with missing facts: as pick for a fleet of one, as trying every subset for a few.

`make test` takes a hundred of each, `make test-all` five thousand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from tests.host.machines import stated
from torchsmith.catalog import Sm
from torchsmith.host.cover import Cover, CoverPlan, Served
from torchsmith.host.demand import Demand
from torchsmith.host.facts import HostFacts
from torchsmith.host.fleet import Fleet, MachineKind
from torchsmith.host.pick import choose
from torchsmith.host.rank import Compatible, rank
from torchsmith.host.resolve import capability_of, resolve
from torchsmith.matrix import Cell, Variant
from torchsmith.workspace.load import open_workspace

WIDE = open_workspace(None, "wide")
CATALOG = WIDE.catalog
TORCH = [cell for cell in WIDE.matrix.cells if cell.variant.package.is_torch]
DRIVERS = ("470.1", "515", "525.60.13", "535.183.01", "550", "560", "570.124.06", "575", "580.65.06", "590")

FEW = 100
MANY = 5_000
sizes = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])


def some(chance: random.Random, words: Sequence[str], missing: float) -> str:
    return "" if chance.random() < missing else chance.choice(words)


def machine(chance: random.Random) -> HostFacts:
    """A machine of which anything may be unknown."""
    missing = chance.choice((0.0, 0.3, 0.7))
    gpus = "; ".join(chance.choices([str(sm) for sm in CATALOG.gpus], k=chance.choice((1, 1, 1, 2, 2, 3))))
    gpu = chance.choice(("none", gpus, gpus, gpus))
    return stated(
        system=some(chance, ("x86_64", "aarch64"), 0.8),
        cpu=some(chance, list(CATALOG.cpus), missing),
        gpu="" if chance.random() < missing / 3 else gpu,
        driver=some(chance, DRIVERS, missing),
    )


def candidates(chance: random.Random, most: int) -> list[Cell]:
    return chance.sample(TORCH, min(len(TORCH), chance.randint(1, most)))


class WithoutReasons(Cover):
    """What serves each machine, but not why none does: that takes longest, and is nothing to compare here."""

    def to_make(self, demand: Demand) -> None:
        return None

    def _why_unserved(self, demand: Demand, missing: Cell | None) -> str:
        return ""


def plan_for(
    machines: Sequence[HostFacts], cells: Sequence[Cell], workload: str, *, reasons: bool = True
) -> tuple[CoverPlan, list[Served]]:
    kinds = tuple(MachineKind(f"m{n}", facts) for n, facts in enumerate(machines))
    covering = Cover if reasons else WithoutReasons
    cover = covering(Fleet(kinds), cells, CATALOG, CATALOG.workloads[workload])
    plan = cover.fewest()
    return plan, cover.served(plan)


@sizes
def test_a_fleet_of_one_gets_what_pick_gives(count: int) -> None:
    chance = random.Random(15)
    different = []
    for number in range(count):
        facts, cells = machine(chance), candidates(chance, chance.choice((8, 40, len(TORCH))))
        workload = chance.choice(list(CATALOG.workloads))
        host = capability_of(resolve(facts, CATALOG))
        choice = choose(host, rank(host, cells, CATALOG, CATALOG.workloads[workload]))
        plan, served = plan_for([facts], cells, workload, reasons=number < FEW)
        used = [one for one in choice.variants if one.gpus or not host.sms]
        wanted = {(one.fit.variant.name, one.fit.assumptions) for one in used}
        names = {(row.variant, row.assumptions) for row in served if row.variant}
        given = {(name, tuple(reason.text for reason in assumptions)) for name, assumptions in wanted}
        if names != given or plan.not_served != (not choice.variants or bool(choice.unserved)):
            different.append((host, workload, names, given))
    assert different == []


def needs(fit: Compatible) -> tuple[str | None, frozenset[str], tuple[int, ...]]:
    """What a candidate takes for granted: a system, features, a driver; written apart from the code's own."""
    isa = CATALOG.isas[fit.variant.isa]
    codes = {reason.code for reason in fit.assumptions}
    cuda = fit.variant.cuda
    return (
        isa.platform if "system" in codes else None,
        isa.needs if "isa" in codes else frozenset(),
        CATALOG.cuda[cuda].min_driver.parts if cuda and "driver" in codes else (),
    )


def serving(facts: HostFacts, cells: Sequence[Cell], workload: str) -> dict[Sm | None, set[int]]:
    """For each GPU of a machine the candidates that use it and take no more for granted than pick would."""
    host = capability_of(resolve(facts, CATALOG))
    ranking = rank(host, cells, CATALOG, CATALOG.workloads[workload])
    able: dict[Sm | None, set[int]] = {}
    for sm in host.sms or (None,):
        picked = [one.fit for one in choose(host, ranking).variants if sm is None or sm in one.gpus]
        able[sm] = set()
        for fit in ranking.fits if picked else ():
            (system, features, driver), limit = needs(fit), needs(picked[0])
            modest = system in (None, limit[0]) and features <= limit[1] and driver <= limit[2]
            if modest and (sm is None or sm in fit.used):
                able[sm].add(cells.index(fit.cell))
    return able


@sizes
def test_the_fewest_for_a_fleet_are_as_few_as_trying_every_subset(count: int) -> None:
    chance = random.Random(16)
    for number in range(count):
        cells, workload = candidates(chance, 9), chance.choice(list(CATALOG.workloads))
        machines = [machine(chance) for _ in range(chance.randint(1, 5))]
        plan, served = plan_for(machines, cells, workload, reasons=number < FEW)
        asked = [able for facts in machines for able in serving(facts, cells, workload).values()]
        servable = [able for able in asked if able]
        fewest = next(
            size
            for size in range(len(cells) + 1)
            if any(
                all(set(group) & able for able in servable) for group in combinations(range(len(cells)), size)
            )
        )
        chosen = {at for at, cell in enumerate(cells) if cell.name in plan.variants}
        assert len(chosen) == fewest
        assert all(chosen & able for able in servable)
        for row in served:
            assert row.variant is None or not row.gpus or Variant.parse(row.variant, CATALOG).sm is not None


def test_machines_of_which_nothing_is_known_get_the_least_demanding() -> None:
    unknown = [stated(gpu="H100", driver="580"), stated(cpu="zen3", gpu="H100"), stated(gpu="H100")]
    known = stated(cpu="sapphirerapids", gpu="H100", driver="580")
    for words in unknown:
        machines = [words, *[known] * 50]
        plan, served = plan_for(machines, TORCH, "general")
        (given,) = {row.variant for row in served if row.kinds == ("m0",) and row.variant}
        assert "avx512" not in given
        assert ("cuda13" in given) is bool(words.driver)
        assert plan.not_served == 0
