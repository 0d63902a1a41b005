"""The catalog agrees with sources that are not the catalog, on products, numbers, drivers and releases."""

from __future__ import annotations

import re

from tests.catalog.second import SECOND, cpu_names, differences, gpu_names
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.gpu_names import gpu_of_name
from torchsmith.catalog.names import cpu_of_name, product_pattern

CATALOG = builtin_catalog()


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def test_the_catalog_says_what_other_sources_say() -> None:
    assert list(differences(CATALOG, unsourced=True)) == []


def test_every_entry_of_the_second_tables_says_where_it_comes_from() -> None:
    tables = [row for table in SECOND.values() if isinstance(table, list) for row in table]
    tables += [SECOND["llvm"], SECOND["needs"], *SECOND["numbers"].values()]
    named = {word for row in tables for word in row["source"].split()}
    assert named - set(SECOND["sources"]) == set()
    assert set(SECOND["sources"]) - named == set(), "a source that nothing comes from"


def test_more_than_400_products_from_sources_that_are_not_ours_are_right() -> None:
    gpus, cpus = list(gpu_names()), list(cpu_names())
    assert len(gpus) >= 150
    assert len(cpus) >= 250
    for name, capability in gpus:
        gpu = gpu_of_name(name, CATALOG)
        assert (gpu and gpu.sm.capability) == capability, name
    for name, _, isas in cpus:
        cpu = cpu_of_name(name, CATALOG)
        assert (cpu and cpu.isas) == isas, name


def test_no_part_of_the_catalog_lacks_a_second_table() -> None:
    names = [f" {words(name)} " for name, _ in gpu_names(unsourced=True)]
    alone = [
        part
        for gpu in CATALOG.gpus.values()
        for part in (*gpu.parts, *gpu.vgpus)
        if not any(f" {words(part)} " in name for name in names)
    ]
    assert alone == []
    generations = {row["capability"] for row in SECOND["generations"]}
    assert generations == {gpu.sm.capability for gpu in CATALOG.gpus.values()}
    drivers = {cuda for row in SECOND["drivers"] for cuda in row["came_with"]}
    assert drivers == {str(version) for version in CATALOG.cuda}
    assert {row["pin"] for row in SECOND["pins"]} == set(CATALOG.pins)
    assert {row["fix"] for row in SECOND["fixes"]} == set(CATALOG.fixes)


def test_a_cpu_that_is_unclear_is_unknown() -> None:
    for name in (
        "Intel Xeon Processor",
        "QEMU Virtual CPU version 2.5+",
        "Genoa and Milan",
        "Intel(R) Core(TM) i7",
        "",
    ):
        assert cpu_of_name(name, CATALOG) is None, name


def test_no_product_is_of_two_microarchitectures() -> None:
    for name, expected, _ in cpu_names(unsourced=True):
        plain = re.sub(r"\((R|TM)\)| CPU", "", name)
        found = {
            cpu.name
            for cpu in CATALOG.cpus.values()
            for one in cpu.products
            if product_pattern(one).search(plain)
        }
        assert found <= {expected}, name
