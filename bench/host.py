"""Picking and covering: against the tool that names a CPU, reading a file, and the textbook programme."""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Row, command, in_turn
from torchsmith.catalog import Catalog
from torchsmith.host.cover import Cover
from torchsmith.host.demand import Demand
from torchsmith.host.fleet import read_fleet
from torchsmith.host.solve import OPTIONS, CoverModel
from torchsmith.workspace.load import open_workspace

MACHINES = 10_000
KINDS = 200
DRIVERS = ("535.183.01", "550.127.05", "570.133.20", "580.95.05", "590.44.01")


def rows() -> Iterator[Row]:
    yield _pick_row()
    opened = open_workspace(None, "wide")
    catalog, cells = opened.catalog, opened.matrix.cells
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.csv"
        file.write_text(inventory(catalog))

        def cover() -> Cover:
            fleet = read_fleet(file, catalog)
            return Cover(fleet, cells, catalog, catalog.workloads["general"])

        def fewest() -> None:
            cover().fewest()

        def curve() -> None:
            asked = cover()
            asked.fewest()
            asked.curve(16)

        def theirs() -> None:
            with file.open() as text:
                list(csv.DictReader(text))

        plan_alone = in_turn(fewest, theirs, repeats=5)
        with_curve = in_turn(curve, theirs, repeats=5)
        asked = cover()
    plan = asked.fewest()
    proof = "proved optimal" if plan.proof.optimal else "not proved"
    note = f"{len(plan.variants)} of {len(asked.cells)} variants are the fewest, {proof}"
    what = f"cover {MACHINES:,} machines of {KINDS} kinds, wide profile"
    yield Row(what, "reading the CSV alone", *plan_alone, 15.0, "lower", note)
    yield Row(f"{what}, --curve 16", "reading the CSV alone", *with_curve, 15.0, "lower")
    yield _programme_row(asked)


def _pick_row() -> Row:
    bin_ = Path(sys.executable).parent
    pick = [str(bin_ / "torchsmith"), "pick", "--names", "--profile", "wide"]
    machine = ["--cpu", "zen4", "--gpu", "RTX 4090", "--driver", "580"]
    ours, theirs = in_turn(command([*pick, *machine]), command([str(bin_ / "archspec"), "cpu"]), repeats=9)
    return Row("torchsmith pick, wide profile", "archspec cpu", ours, theirs, 5.0, "lower")


def inventory(catalog: Catalog) -> str:
    """The same fleet every time: the catalog's CPUs with GPUs that can sit beside them."""
    chance = random.Random(20)
    kinds = []
    cpus = [cpu for cpu in catalog.cpus.values() if cpu.isas]
    for _ in range(KINDS):
        cpu = chance.choice(cpus)
        gpus = [
            gpu.name
            for gpu in catalog.gpus.values()
            if cpu.platform in gpu.platforms and (not gpu.cpus or cpu.name in gpu.cpus)
        ]
        gpu = chance.choice(gpus) if chance.random() < 0.8 else "none"
        kinds.append(f"{cpu.name},{gpu},{chance.choice(DRIVERS)}")
    lines = [f"machine{n},{kinds[n % KINDS]}" for n in range(MACHINES)]
    return "\n".join(["name,cpu,gpu,driver", *lines]) + "\n"


def _programme_row(asked: Cover) -> Row:
    """The same question, built and solved twice: ours, and a variable for every demand and variant."""
    demands, candidates = asked.demands, len(asked.cells)
    count = len(CoverModel(demands, candidates).fewest().chosen)
    if count != textbook(demands, candidates):
        raise SystemExit("the textbook programme disagrees: this is a bug")
    ours, theirs = in_turn(
        lambda: _use(CoverModel(demands, candidates).fewest()),
        lambda: _use(textbook(demands, candidates)),
        repeats=5,
    )
    rival = "HiGHS on the textbook model (fewest only)"
    return Row("fewest variants and the best of those", rival, ours, theirs, 1.0, "higher")


def _use(result: object) -> None:
    assert result is not None


def textbook(demands: tuple[Demand, ...], candidates: int) -> int:
    """How many variants the textbook model needs: x for variants, y for who serves whom."""
    import highspy

    make: Any = highspy.Highs
    highs = make()
    for option, value in OPTIONS.items():
        highs.setOptionValue(option, value)
    x = [highs.addBinary() for _ in range(candidates)]
    for demand in demands:
        if demand.costs:
            y = {index: highs.addVariable(0, 1) for index in demand.costs}
            for index, own in y.items():
                highs.addConstr(own <= x[index])
            highs.addConstr(sum(y.values()) == 1)
    highs.minimize(sum(x))
    fewest: float = highs.getInfo().objective_function_value
    return round(fewest)
