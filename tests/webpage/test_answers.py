"""The page's answers are those of `pick`, for every question that the page offers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from torchsmith.host.pick import pick, stack_of
from torchsmith.host.rank import rank
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.webpage.answers import NO_GPU, Offer, answer_lines, answers, offer
from torchsmith.workspace.load import Workspace, open_workspace

opened = cache(open_workspace)
SAMPLE = 40  # every so many answers are compared with a whole `pick` too: what else it works out takes long


def workspace(profile: str) -> Workspace:
    return opened(None, profile)


@cache
def host_of(machine: tuple[tuple[str, str], ...], profile: str) -> Capability:
    catalog = workspace(profile).catalog
    return capability_of(resolve(stated_facts(catalog, "a test", **dict(machine)), catalog))


def picked(machine: dict[str, str], workload: str, profile: str) -> tuple[str, list[str]]:
    """The variant that `pick` chooses, out of all cells, and its reasons."""
    catalog = workspace(profile).catalog
    facts = stated_facts(catalog, "a test", **machine)
    answer = pick(facts, workspace(profile).matrix.cells, catalog, catalog.workloads[workload])
    assert len(answer.choice.variants) <= 1
    return answer_lines(answer.host, answer.ranking)


def questions(offered: Offer) -> Iterator[tuple[tuple[str, str, str, str], dict[str, str]]]:
    """Every question (GPU, CPU, driver, use), and the machine that it describes."""
    names = (*(gpu.name for gpu in offered.gpus), *(gfx.name for gfx in offered.gfx))
    for gpu in (NO_GPU, *names):
        for cpu, machine in offered.processors():
            for driver in ("", *map(str, offered.drivers.get(gpu, ()))):
                for workload in offered.workloads:
                    yield (gpu, cpu, driver, workload), machine | {"gpu": gpu, "driver": driver}


def looked_up(table: dict[str, Any], gpu: str, cpu: str, driver: str, workload: str) -> tuple[str, list[str]]:
    """What the script shows."""
    place = table["drivers"][gpu].index(driver) + 1 if driver else 0
    number = table["table"][gpu][table["cpus"][cpu]][place][table["workloads"].index(workload)]
    name, lines = table["answers"][number]
    return name, [table["words"][line] for line in lines]


@pytest.mark.parametrize("profile", ["plan", "rocm", pytest.param("wide", marks=pytest.mark.long)])
def test_every_answer_is_the_one_that_pick_gives(profile: str) -> None:
    cells, catalog = workspace(profile).matrix.cells, workspace(profile).catalog
    table = msgspec.json.decode(msgspec.json.encode(answers(cells, catalog), enc_hook=str))
    own = stack_of((), cells, catalog).cells(cells)
    kept: dict[Any, tuple[str, list[str]]] = {}
    for (gpu, cpu, driver, workload), machine in questions(offer(cells, catalog)):
        host = host_of(tuple(machine.items()), profile)
        if (host, workload) not in kept:
            ranking = rank(host, own, catalog, catalog.workloads[workload], able=True)
            kept[host, workload] = answer_lines(host, ranking)
            if len(kept) % SAMPLE == 0:
                assert kept[host, workload] == picked(machine, workload, profile)
        assert looked_up(table, gpu, cpu, driver, workload) == kept[host, workload], (gpu, cpu, driver)
    assert len(kept) > 500
    assert len({name for name, _ in kept.values()}) > 20


def test_what_is_offered_covers_the_catalog() -> None:
    cells, catalog = workspace("wide").matrix.cells, workspace("wide").catalog
    offered = offer(cells, catalog)
    gpus = {gpu for (gpu, _, _, _), _ in questions(offered)}
    assert gpus == {NO_GPU, *(gpu.name for gpu in catalog.gpus.values())}
    assert {cpu.name for cpu in offered.cpus} == {cpu.name for cpu in catalog.cpus.values() if not cpu.mac}
    for gpu in offered.gpus:
        assert offered.drivers[gpu.name][0] == gpu.min_driver


def test_a_matrix_without_cells_says_that_nothing_runs() -> None:
    catalog = workspace("plan").catalog
    table = answers((), catalog)
    assert [name for name, _ in table["answers"]] == [""]
    assert table["commands"] == []
