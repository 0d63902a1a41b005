"""Plans for fleets: optimal, as trying every subset shows, and honest about whom they leave out."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.machines import stated
from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import Invalid
from torchsmith.host.cover import Cover, CoverPlan
from torchsmith.host.demand import Demand
from torchsmith.host.facts import HostFacts
from torchsmith.host.fleet import Fleet, MachineKind, read_fleet
from torchsmith.host.pick import pick, why_older
from torchsmith.host.resolve import Capability
from torchsmith.host.solve import CoverModel
from torchsmith.matrix import Cell, Variant
from torchsmith.matrix.text import matrix_text
from torchsmith.verbs.cover import write_plan
from torchsmith.workspace.load import open_workspace

WIDE = open_workspace(None, "wide")
CATALOG = WIDE.catalog
TORCH = [cell for cell in WIDE.matrix.cells if cell.variant.package.is_torch]
GENERAL = CATALOG.workloads["general"]

SIZE = 5
costs = st.dictionaries(st.integers(0, SIZE - 1), st.integers(0, 9), max_size=4)
weights = st.integers(0, 4).map(float)


@st.composite
def problems(draw: st.DrawFn) -> list[Demand]:
    """Demands on a few candidates."""
    rows = draw(st.lists(st.tuples(costs, weights), min_size=1, max_size=6))
    return [Demand(Capability(), row, weight=weight) for row, weight in rows]


def quality(demands: Sequence[Demand], chosen: Sequence[int]) -> tuple[float, float]:
    """Weight served, and how well, as the programme weighs it."""
    worst = 1 + max((cost for demand in demands for cost in demand.costs.values()), default=0)
    served = better = 0.0
    for demand in demands:
        able = [demand.costs[index] for index in chosen if index in demand.costs]
        if able:
            served += demand.weight
            better += demand.weight * (worst - min(able))
    return served, better


def subsets(candidates: int, most: int) -> list[tuple[int, ...]]:
    return [group for size in range(most + 1) for group in combinations(range(candidates), size)]


@given(problems(), st.integers(1, SIZE))
@settings(max_examples=200)
def test_the_best_few_are_as_good_as_trying_every_subset(demands: list[Demand], count: int) -> None:
    solution = CoverModel(demands, SIZE).best(count)
    rivals = [quality(demands, group) for group in subsets(SIZE, count)]
    found = quality(demands, solution.chosen)
    assert found[0] == pytest.approx(max(rivals)[0])
    assert found[1] == pytest.approx(max(rivals)[1])
    assert len(solution.chosen) <= count
    assert solution.proof.optimal


@given(problems())
@settings(max_examples=150)
def test_the_fewest_are_as_few_as_trying_every_subset(demands: list[Demand]) -> None:
    covering = [
        group
        for group in subsets(SIZE, SIZE)
        if all(set(group) & set(demand.costs) for demand in demands if demand.costs)
    ]
    solution = CoverModel(demands, SIZE).fewest()
    assert len(solution.chosen) == min(map(len, covering))
    assert solution.chosen in covering
    assert solution.proof.optimal


def test_the_first_answer_that_covers_is_not_taken_for_the_fewest() -> None:
    draw = random.Random(1)
    rows = [{index: draw.randrange(9) for index in draw.sample(range(12), 3)} for _ in range(20)]
    demands = [Demand(Capability(), row, weight=float(draw.randrange(1, 5))) for row in rows]
    solution = CoverModel(demands, 12).fewest()
    covering = (group for group in subsets(12, 12) if all(row.keys() & group for row in rows))
    assert len(solution.chosen) == len(next(covering))


def test_how_much_worse_a_fit_is_decides_between_equally_many() -> None:
    far = Demand(Capability(), {0: 0, 2: 9}, weight=1.0)
    near = Demand(Capability(), {1: 0, 2: 2}, weight=1.0)
    assert CoverModel([far, near], 3).best(1).chosen == (2,)
    other = Demand(Capability(), {0: 0, 2: 1}, weight=1.0)
    assert CoverModel([far, other], 3).best(1).chosen == (0,)


def fleet(*rows: tuple[str, int, HostFacts]) -> Fleet:
    return Fleet(tuple(MachineKind(name, facts, count) for name, count, facts in rows))


def cover(machines: Fleet, without: Sequence[str] = ()) -> Cover:
    cells = [cell for cell in WIDE.matrix.cells if cell.name not in without]
    return Cover(machines, cells, CATALOG, GENERAL)


MIXED = fleet(
    ("ampere", 10, stated(cpu="zen3", gpu="A100", driver="535.1")),
    ("desk", 5, stated(cpu="zen4", gpu="RTX 3090 + RTX 4090", driver="580")),
    ("hopper", 3, stated(cpu="sapphirerapids", gpu="H100", driver="580")),
    ("batch", 7, stated(cpu="graviton3", gpu="none")),
    ("old", 2, stated(cpu="zen", gpu="T4", driver="470.1")),
)


def cells(plan: CoverPlan) -> list[str]:
    return [name.removeprefix("pytorch-python313-") for name in plan.variants]


def test_the_fewest_share_what_can_be_shared() -> None:
    plan = cover(MIXED).fewest()
    assert cells(plan) == ["cpu-armv8_2", "cuda12_8-sm80-avx2", "cuda13_0-sm90-avx512"]
    assert (plan.at_their_best, plan.slower, plan.not_served) == (20, 5, 2)


def test_a_machine_that_nothing_serves_is_named_with_the_reason() -> None:
    asked = cover(MIXED)
    lost = [row for row in asked.served(asked.fewest()) if row.variant is None]
    assert [row.kinds for row in lost] == [("old",)]
    assert re.search(r"525\.60\.13.* 470\.1", lost[0].why)
    assert asked.unservable == 2


def test_a_gpu_that_no_candidate_uses_is_named_with_the_reason() -> None:
    asked = cover(fleet(("old", 1, stated(cpu="zen3", gpu="RX 580"))))
    [lost] = asked.served(asked.fewest())
    assert lost.variant is None
    assert lost.why.startswith("RX 580: ROCm 4.5 ")


NEWEST = max(CATALOG.releases, key=lambda line: version_key(line.torch)).name


@pytest.mark.parametrize(("line", "older"), [("2.9", True), (NEWEST, False), ("no line", False)])
def test_a_variant_is_older_if_there_are_newer_releases_of_torch(line: str, older: bool) -> None:
    cell = Cell(Variant.parse("pytorch-python313-cpu-avx2", CATALOG), line)
    assert bool(why_older(cell, CATALOG)) is older


def test_every_further_variant_buys_something() -> None:
    asked = cover(MIXED)
    plans = asked.curve(20)
    scores = [(plan.served, plan.at_their_best) for plan in plans]
    assert scores == sorted(scores)
    assert plans[-1].slower == 0
    assert plans[-1].not_served == asked.unservable
    assert [len(plan.variants) for plan in plans] == list(range(1, len(plans) + 1))


def test_at_full_size_every_machine_gets_what_pick_would_give_it() -> None:
    asked = cover(MIXED)
    names = asked.curve(20)[-1].variants
    for kind in MIXED.kinds[:1] + MIXED.kinds[2:4]:
        choice = pick(kind.facts, WIDE.matrix.cells, CATALOG, GENERAL).choice
        assert choice.variants[0].fit.variant.name in names


def test_a_candidate_that_is_left_out_is_not_chosen() -> None:
    banned = "pytorch-python313-cuda12_8-sm80-avx2"
    plan = cover(MIXED, (banned,)).fewest()
    assert banned not in plan.variants
    assert plan.not_served == 2


def test_weights_decide_who_is_served_first() -> None:
    words = (stated(cpu="zen3", gpu="A100", driver="580"), stated(cpu="zen3", gpu="H100", driver="580"))
    kinds = [
        MachineKind("many", words[0], 10),
        MachineKind("dear", words[1], 1, 50.0),
    ]
    assert cells(cover(Fleet(tuple(kinds))).best(1)) == ["cuda13_0-sm90-avx2"]


def test_the_cost_counts_companions_and_the_largest_build() -> None:
    plan = cover(MIXED).best(1)
    table = {name: row for name, row in CATALOG.estimates.items() if name.endswith("-gpu")}
    core_hours = sum(row.hours * row.cores for row in table.values())
    assert plan.cost.hours == pytest.approx(core_hours / plan.cost.cores)
    assert plan.cost.build_gb == max(row.build_gb for row in table.values())


def test_a_fleet_without_drivers_says_what_it_assumes() -> None:
    asked = cover(fleet(("x", 1, stated(cpu="zen3", gpu="H100"))))
    assert ["525.60.13" in words for words in asked.served(asked.fewest())[0].assumptions] == [True]


def test_ten_thousand_machines_are_one_demand_for_each_kind() -> None:
    chance = random.Random(1)
    pool = [
        stated(cpu=cpu, gpu=gpu, driver="580") for cpu in ("zen3", "zen4") for gpu in ("L4", "H100", "A10")
    ]
    kinds = tuple(MachineKind(f"m{n}", chance.choice(pool)) for n in range(10_000))
    asked = cover(Fleet(kinds))
    assert len(asked.demands) == len(pool)
    assert sum(demand.machines for demand in asked.demands) == 10_000


def test_the_plan_becomes_a_matrix_that_torchsmith_reads(tmp_path: Path) -> None:
    asked = cover(MIXED)
    plan = asked.fewest()
    file = tmp_path / "torchsmith.toml"
    chosen = [asked.names[name] for name in plan.variants]
    write_plan(file, asked.with_companions(chosen), "Chosen for a test.")
    names = {cell.name for cell in open_workspace(file).matrix.cells}
    assert names == {
        cell.variant.of(package).name
        for cell in chosen
        for package in CATALOG.packages.values()
        if package.default
    }


def test_a_file_that_torchsmith_would_refuse_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "torchsmith.toml"
    with pytest.raises(Invalid):
        write_plan(file, [Cell(TORCH[0].variant, "9.9")], "Of a line that is not known there.")
    assert not file.exists()


def test_cells_of_several_lines_are_written_without_a_line() -> None:
    text = matrix_text(TORCH[:2], "a\nb")
    assert text.startswith("# a\n# b\nformat = 1\n")


def test_the_sample_is_served_whole() -> None:
    plan = cover(read_fleet(Path("sample"), CATALOG)).fewest()
    assert plan.not_served == 0


def test_a_machine_with_two_gpus_is_one_machine() -> None:
    asked = cover(fleet(("desk", 1, stated(cpu="zen4", gpu="RTX 3090 + H100", driver="580"))))
    assert [(demand.machines, demand.weight) for demand in asked.demands] == [(1, 0.5), (1, 0.5)]
    one = asked.best(1)
    assert (one.at_their_best, one.slower, one.not_served, one.in_part) == (0, 0, 1, 1)
    two = asked.best(2)
    assert (two.at_their_best, two.slower, two.not_served, two.in_part) == (1, 0, 0, 0)


def test_an_older_torch_is_never_taken_to_save_a_build(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(
        "hostname,count,gpu_model,model name,driver\nold,1,V100,zen2,550.54.15\nnew,20,T4,zen2,550.54.15\n"
    )
    every = open_workspace(None, "every")
    fleet = read_fleet(tmp_path / "fleet.csv", every.catalog)
    assert not fleet.unused_columns
    cells = every.cells_of(every.catalog.torch)
    asked = Cover(fleet, cells, every.catalog, every.catalog.workloads["general"])
    served = asked.served(asked.fewest())
    given = {one.machines: one.variant for one in served}
    assert given[20] is not None
    assert given[20] != given[1], "twenty machines would get the older torch of one"
    why = {one.machines: one.older for one in served}
    assert why[1].startswith("torch 2.8.0; ")
    assert why[20] == ""
