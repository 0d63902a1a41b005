"""The catalog that ships hangs together."""

from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.check import faults_of


def test_every_reference_in_the_catalog_exists_and_applies() -> None:
    assert list(faults_of(builtin_catalog())) == []


def test_every_entry_names_its_source() -> None:
    catalog = builtin_catalog()
    tables = (catalog.gpus, catalog.isas, catalog.cpus, catalog.cuda, catalog.pythons, catalog.pins)
    more = (catalog.lines, catalog.fixes, catalog.errors, catalog.workloads, catalog.estimates)
    for table in (*tables, *more):
        assert table
        for entry in table.values():
            assert entry.source


def test_every_workload_places_every_instruction_set() -> None:
    catalog = builtin_catalog()
    for workload in catalog.workloads.values():
        assert set(workload.isas) == set(catalog.isas)
