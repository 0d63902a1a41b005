"""The catalog agrees with sources that are not the catalog, on products, numbers, drivers and releases."""

from __future__ import annotations

import re

from tests.catalog.second import SECOND, cpu_names, differences, gpu_names
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.names import cpu_of_name, product_pattern

CATALOG = builtin_catalog()


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def test_the_catalog_says_what_other_sources_say() -> None:
    assert list(differences(CATALOG)) == []


def test_more_than_300_products_are_told_by_name() -> None:
    assert len(list(gpu_names())) >= 150
    assert len(list(cpu_names())) >= 150


def test_no_part_of_the_catalog_lacks_a_second_source() -> None:
    names = [f" {words(name)} " for name, _ in gpu_names()]
    alone = [
        part
        for gpu in CATALOG.gpus.values()
        for part in (*gpu.parts, *gpu.vgpus)
        if not any(f" {words(part)} " in name for name in names)
    ]
    assert alone == []
    assert set(SECOND["generations"]) == {gpu.sm.capability for gpu in CATALOG.gpus.values()}
    assert set(SECOND["cuda_drivers"]) == {str(version) for version in CATALOG.cuda}


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
    for name, expected, _ in cpu_names():
        plain = re.sub(r"\((R|TM)\)| CPU", "", name)
        found = {
            cpu.name
            for cpu in CATALOG.cpus.values()
            for one in cpu.products
            if product_pattern(one).search(plain)
        }
        assert found <= {expected}, name
