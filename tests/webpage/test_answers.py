"""The page's answers are those of `pick`, for every question that the page offers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from torchsmith.catalog import Catalog, DriverVersion, PythonVersion
from torchsmith.catalog.names import cpu_of_name
from torchsmith.host.candidates import for_python
from torchsmith.host.pick import pick, stack_of
from torchsmith.host.rank import rank
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.host.wheel_needs import WheelWish
from torchsmith.host.wheels import wheels_for
from torchsmith.verbs.page import PageRequest, page
from torchsmith.webpage.answers import MAC, NO_GPU, Offer, answer_lines, answers, offer, wheel_lines
from torchsmith.workspace.load import Workspace, open_workspace

opened = cache(open_workspace)

SAMPLE = 40  # every so many answers are compared with a whole `pick` too: what else it works out takes long


def workspace(profile: str) -> Workspace:
    return opened(None, profile)


@cache
def host_of(machine: tuple[tuple[str, str], ...], profile: str) -> Capability:
    catalog = workspace(profile).catalog
    words = dict(machine)
    older = words["driver"].startswith("older than")
    facts = stated_facts(catalog, "a test", **(words | {"driver": "" if older else words["driver"]}))
    host = capability_of(resolve(facts, catalog))
    if older:
        newest = int(words["driver"].split()[-1]) - 1
        host = msgspec.structs.replace(host, driver=DriverVersion((newest,), words["driver"]))
    return host


Answer = tuple[str, list[str], list[list[str]]]


def wheels(host: Capability, catalog: Catalog, python: PythonVersion | None) -> list[list[str]]:
    return [wheel_lines(wheel) for wheel in wheels_for(host, catalog, WheelWish(python))]


def picked(
    machine: dict[str, str], workload: str, profile: str, python: PythonVersion | None = None
) -> Answer:
    """The variant that `pick` chooses, out of all cells, its reasons, and the wheels."""
    catalog = workspace(profile).catalog
    facts = stated_facts(catalog, "a test", **machine)
    cells = [cell for cell in workspace(profile).matrix.cells if python in (None, cell.variant.python)]
    answer = pick(facts, cells, catalog, catalog.workloads[workload])
    assert len(answer.choice.variants) <= 1
    return *answer_lines(answer.host, answer.ranking, catalog), wheels(answer.host, catalog, python)


Question = tuple[str, str, str, str]  # product, CPU, driver, use


def questions(offered: Offer) -> Iterator[tuple[Question, dict[str, str]]]:
    """Every question, and the options that describe its machine."""
    for product in offered.products:
        name = product.names[0] if product.maker == "NVIDIA" else product.gpu
        for cpus in offered.machines(product).values():
            for cpu, words in cpus.items():
                for driver in ("", *map(str, product.drivers)):
                    for workload in offered.workloads:
                        yield (product.key, cpu, driver, workload), words | {"gpu": name, "driver": driver}


def looked_up(
    table: dict[str, Any], key: str, cpu: str, driver: str, workload: str, name: str = "", python: str = ""
) -> Answer:
    """What the script shows if the product of this name is chosen."""
    place = table["products"][key]["drivers"].index(driver) + 1 if driver else 0
    column = table["pythons"].index(python) + 1 if python else 0
    cpus, rows = table["table"][key]
    builds, offered = rows[cpus[cpu]][place]
    build, lines, _ = table["builds"][builds[column][table["workloads"].index(workload)]]
    parts = (lines, *table["wheels"][offered[column]])
    shown = [[table["words"][line].replace("{gpu}", name) for line in part] for part in parts]
    return build, shown[0], shown[1:]


@pytest.mark.parametrize("profile", ["seed", "rocm", pytest.param("every", marks=pytest.mark.long)])
def test_every_answer_is_the_one_that_pick_gives(profile: str) -> None:
    cells, catalog = workspace(profile).matrix.cells, workspace(profile).catalog
    table = msgspec.json.decode(msgspec.json.encode(answers(cells, catalog), enc_hook=str))
    own = stack_of((), cells, catalog).cells(cells)
    kept: dict[Any, Answer] = {}
    for question, machine in questions(offer(cells, catalog)):
        host, workload = host_of(tuple(machine.items()), profile), question[-1]
        if (host, workload) not in kept:
            ranking = rank(host, own, catalog, catalog.workloads[workload], able=True)
            kept[host, workload] = (*answer_lines(host, ranking, catalog), wheels(host, catalog, None))
            if len(kept) % SAMPLE == 0 and "older" not in machine["driver"]:
                assert kept[host, workload] == picked(machine, workload, profile)
        assert looked_up(table, *question, machine["gpu"]) == kept[host, workload], question
    assert len(kept) > 500
    assert len({name for name, *_ in kept.values()}) > 20


@pytest.mark.parametrize("python", ["3.9", "3.10", "3.11", "3.13", "3.14", "3.15"])
def test_a_python_that_is_chosen_is_answered_as_pick_answers_it(python: str) -> None:
    cells, catalog = workspace("seed").matrix.cells, workspace("seed").catalog
    table = msgspec.json.decode(msgspec.json.encode(answers(cells, catalog), enc_hook=str))
    offered, parsed = offer(cells, catalog), PythonVersion.parse(python)
    checked = set()
    for question, machine in questions(offered):
        host, name = host_of(tuple(machine.items()), "seed"), machine["gpu"]
        if host in checked or question[-1] != "general":
            continue
        checked.add(host)
        build, lines, shown = looked_up(table, *question, name, python)
        assert shown == wheels(host, catalog, parsed), question
        if python == "3.13":
            assert (build, lines) == looked_up(table, *question, name)[:2]
        else:
            assert (build, lines) == ("", [f"No build of this matrix is for Python {python}."])
    assert len(checked) > 200


def test_a_matrix_for_two_pythons_answers_for_each() -> None:
    catalog = workspace("seed").catalog
    own = workspace("seed").matrix.cells
    cells = [*own, *for_python(PythonVersion(3, 12), own, None, catalog)[0]]
    table = msgspec.json.decode(msgspec.json.encode(answers(cells, catalog), enc_hook=str))
    for python, built in (("", "3.13"), ("3.13", "3.13"), ("3.12", "3.12")):
        name, *_ = looked_up(table, "sm90", "zen4", "580", "general", python=python)
        assert name == f"pytorch-python{built.replace('.', '')}-cuda13_0-sm90-avx512"


def test_without_a_workspace_the_page_answers_from_what_pick_chooses_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells, catalog = workspace("every").matrix.cells, workspace("every").catalog
    assert {cell.name for cell in page(PageRequest()).cells} >= {cell.name for cell in cells}
    table = msgspec.json.decode(msgspec.json.encode(answers(cells, catalog), enc_hook=str))
    assert table["products"]["sm89"]["drivers"] == [
        "older than 525",
        "525",
        "560",
        "570",
        "575",
        "580",
        "590",
        "595",
    ]
    for gpu, driver, build, wheel in (
        ("sm89", "570", "pytorch-python313-cuda12_8-sm89-avx512", "2.14.1 --index-url"),
        ("sm89", "580", "pytorch-python313-cuda13_0-sm89-avx512", "2.15.0 --index-url"),
        ("sm89", "", "pytorch-python313-cuda12_6-sm89-avx512", "2.14.1 --index-url"),
        ("sm61", "570", "pytorch28-python313-cuda12_8-sm61-avx512", "2.14.1 --index-url"),
    ):
        name, _, [[pip, when, newer, title, *facts]] = looked_up(
            table, gpu, "zen4", driver, "general", "a GPU"
        )
        assert name == build
        assert pip.startswith(f"pip install torch=={wheel}")
        assert title.startswith("PyTorch's wheel: torch 2.")
        assert any("release notes" in fact for fact in facts)
        assert bool(when) == bool(newer) == (gpu == "sm89" and driver != "580")
        assert all("your a GPU" in fact for fact in facts if "sm86" in fact)
    ended = {key for key, product in table["products"].items() if product["ends"]}
    assert ended == {"sm60", "sm61", "sm70"}
    assert {table["products"][key]["drivers"][-1] for key in ended} == {"580"}
    [[*_, idle, _, _]] = looked_up(table, "sm120", "zen4", "older than 570", "general", "RTX 5090")[2]
    assert idle.startswith("leaves RTX 5090 idle: driver older than 570 is too old")


def test_only_machines_that_exist_are_offered_and_each_gets_its_own_build() -> None:
    cells, catalog = workspace("every").matrix.cells, workspace("every").catalog
    offered = offer(cells, catalog)
    machines = {product.key: offered.machines(product) for product in offered.products}
    assert machines["GH200"] == {"aarch64-linux": {"neoverse_v2": {"cpu": "neoverse_v2", "gpu": "GH200"}}}
    assert machines["sm61"].keys() == {"x86_64-linux"}
    assert {"m1", "m4"} <= machines[MAC]["aarch64-darwin"].keys()
    assert "GH200" not in next(product.names for product in offered.products if product.key == "sm90")
    table = answers(cells, catalog)
    assert looked_up(table, "GH200", "neoverse_v2", "", "general")[0].endswith("-sm90-armv9")
    assert looked_up(table, MAC, "m3", "", "general")[0].endswith("-darwin-mps")


def test_what_is_offered_covers_the_catalog() -> None:
    cells, catalog = workspace("wide").matrix.cells, workspace("wide").catalog
    offered = offer(cells, catalog)
    keys = {product.key for product in offered.products}
    superchips = {part for gpu in catalog.gpus.values() for part in gpu.superchips}
    own = {NO_GPU, MAC, *(gpu.name for gpu in catalog.gpus.values()), *superchips}
    assert own < keys
    others = {product.key: product for product in offered.products if product.key not in own}
    assert {"gfx1100", "gfx1031", "arc", "max"} <= others.keys()  # PyTorch has wheels for them
    assert others.keys().isdisjoint({"gfx803", "gfx1013"})  # and none for these
    listed = {
        cpu for product in offered.products for cpus in offered.machines(product).values() for cpu in cpus
    }
    assert listed >= catalog.cpus.keys()
    for product in offered.products:
        if gpu := next((gpu for gpu in catalog.gpus.values() if gpu.name == product.key), None):
            # No build and no wheel is of a CUDA that older drivers than 525 run.
            needed = max(gpu.min_driver, DriverVersion((525, 60, 13)))
            assert product.drivers[1:2] == (() if gpu.tegra else (DriverVersion(needed.parts[:1]),))
            assert all(driver < needed for driver in product.drivers[:1])


def test_gpus_are_listed_by_maker_and_the_newest_of_each_kind_first() -> None:
    listed = offer(workspace("seed").matrix.cells, workspace("seed").catalog).listed()
    assert {product.maker for _, product in listed} == {"", "NVIDIA", "AMD", "Intel", "Apple"}
    names = [name for name, _ in listed]
    asked = [
        "RTX 5090", "RTX 4090", "GTX 1080", "RTX PRO 6000", "RTX 6000 Ada", "B200", "H100", "V100", "GB10",
        "Jetson AGX Orin",
    ]  # fmt: skip
    assert sorted(asked, key=names.index) == asked


def test_a_cpu_is_listed_by_its_maker_and_by_products_that_are_known_to_have_it() -> None:
    catalog = workspace("seed").catalog
    for cpu in catalog.cpus.values():
        for name in cpu.examples:
            assert cpu_of_name(name, catalog) == cpu
    label, maker = answers((), catalog)["cpus"]["zen4"]
    assert maker == "AMD"
    assert label.startswith("Ryzen 9 7950X, EPYC 9654 (")


def test_a_matrix_without_cells_says_that_nothing_runs() -> None:
    catalog = workspace("seed").catalog
    table = answers((), catalog)
    assert {name for name, *_ in table["builds"]} == {""}
    assert table["commands"] == []


def test_the_command_of_a_workspace_does_not_depend_on_where_the_page_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workspace("real")
    here = answers(real.matrix.cells, real.catalog)["commands"]
    monkeypatch.chdir(tmp_path)
    assert (
        answers(real.matrix.cells, real.catalog)["commands"]
        == here
        == ["torchsmith apply && torchsmith build {name}"]
    )
