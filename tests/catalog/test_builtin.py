"""The catalog that ships hangs together."""

from copy import copy

import msgspec
import pytest

from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.check import BY_NAME, PATTERNS, REFERENCES, faults_of
from torchsmith.catalog.gpu_names import product_of_name
from torchsmith.catalog.load import Layer
from torchsmith.catalog.suggest import suggestion
from torchsmith.host.resolve import find_cpu


def test_every_reference_in_the_catalog_exists_and_applies() -> None:
    assert list(faults_of(builtin_catalog())) == []


def test_every_entry_names_its_source() -> None:
    catalog = builtin_catalog()
    tables = (catalog.gpus, catalog.isas, catalog.cpus, catalog.cuda, catalog.pythons, catalog.pins)
    more = (
        catalog.lines,
        catalog.fixes,
        catalog.errors,
        catalog.workloads,
        catalog.estimates,
        catalog.actions,
        catalog.caches,
    )
    for table in (*tables, *more):
        assert table
        for entry in table.values():
            assert entry.source


def test_every_workload_places_every_instruction_set() -> None:
    catalog = builtin_catalog()
    for workload in catalog.workloads.values():
        assert set(workload.isas) == set(catalog.isas)


@pytest.mark.parametrize(
    ("limit", "fault"),
    [
        ('sms = ["sm88"]', "sm88"),
        ('cuda = ">=14"', "CUDA"),
        ('cuda = "13 or so"', "13 or so"),
    ],
)
def test_a_limit_that_can_never_hold_is_a_fault(limit: str, fault: str) -> None:
    layer = Layer({"pins": f'[6a030d5.limits.x]\nreason = "why"\n{limit}\n'})
    [found] = faults_of(Catalog([*builtin_catalog().layers, layer]))
    assert (found.file, found.path) == ("pins", ("6a030d5", "limits", "x"))
    assert fault in str(found)


def test_a_fix_for_releases_that_cannot_be_read_is_a_fault() -> None:
    layer = Layer({"fixes": '[magma-cuda13]\ntorch = "new or so"\n'})
    found = faults_of(Catalog([*builtin_catalog().layers, layer]))
    assert {(fault.file, fault.path) for fault in found} == {("fixes", ("magma-cuda13",))}


@pytest.mark.parametrize(("file", "field", "known", "what"), REFERENCES)
def test_a_name_that_refers_to_nothing_is_a_fault(file: str, field: str, known: str, what: str) -> None:
    catalog = copy(builtin_catalog())
    table = getattr(catalog, file)
    name, entry = next((name, entry) for name, entry in table.items() if getattr(entry, field))
    old = getattr(entry, field)
    table_of = {"nothing": "x"} if field in BY_NAME else {"x": "nothing"}
    new = "nothing" if isinstance(old, str) else table_of if isinstance(old, dict) else ("nothing",)
    catalog.__dict__[file] = {**table, name: msgspec.structs.replace(entry, **{field: new})}
    places = [
        (fault.file, fault.path) for fault in faults_of(catalog) if f"unknown {what} nothing" in fault.text
    ]
    assert places == [(file, (str(name), field))]


@pytest.mark.parametrize(("file", "field"), PATTERNS)
def test_a_pattern_that_cannot_be_read_is_a_fault(file: str, field: str) -> None:
    catalog = copy(builtin_catalog())
    table = getattr(catalog, file)
    name, entry = next(iter(table.items()))
    new = "(" if isinstance(getattr(entry, field), str) else ("(",)
    catalog.__dict__[file] = {**table, name: msgspec.structs.replace(entry, **{field: new})}
    assert (file, (str(name), field)) in [(fault.file, fault.path) for fault in faults_of(catalog)]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("GTX 4090", "RTX 4090"), ("RTX 1080", "GTX 1080"), ("RTX 4099", "RTX 4090"),
        ("RXT 4090", "RTX 4090"), ("h1000", "H100"), ("rtx 4090ti", "RTX 4090"), ("hopper", "H100"),
        ("jetson", "Jetson AGX Orin"), ("ada", "RTX 4090"),
        ("W7900", "Radeon PRO W7900"), ("sm12", "sm120"), ("gfx1104", "gfx1100"), ("zzz", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_word_that_names_nothing_gets_the_nearest_names(word: str, name: str) -> None:
    hint = suggestion(word, builtin_catalog())
    assert (name in hint) if name else not hint


@pytest.mark.parametrize("table", ["gfx", "intel"])
def test_a_product_that_is_suggested_is_known(table: str) -> None:
    catalog = builtin_catalog()
    for gpu in getattr(catalog, table).values():
        assert [product_of_name(name, catalog) for name in gpu.products] == [gpu] * len(gpu.products)


def test_a_pattern_of_a_workspace_is_checked_and_the_built_in_ones_are_not_again() -> None:
    wrong = '[mine]\ntitle = "t"\nkind = "network"\npattern = "("\npolicy = "stop"\n'
    wrong += 'cause = "c"\nfix = "f"\nsource = "s"\n'
    catalog = copy(Catalog([*builtin_catalog().layers, Layer({"errors": wrong})]))
    first = next(iter(catalog.gpus.values()))
    catalog.__dict__["gpus"] = catalog.gpus | {first.sm: msgspec.structs.replace(first, spelled=("(",))}
    assert [fault.path for fault in faults_of(catalog) if "pattern" in fault.text] == [("mine", "pattern")]


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ("0x41/0xd0c", "neoverse_n1"),
        ("0x41/0xd4f", "neoverse_v2"),
        ("0x41/0xfff", ""),
        ("GenuineIntel/6", ""),
    ],
)
def test_a_cpu_is_known_by_all_of_its_numbers(numbers: str, name: str) -> None:
    cpu = find_cpu(numbers, builtin_catalog())
    assert (cpu.name if cpu else "") == name
