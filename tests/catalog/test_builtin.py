"""The catalog that ships hangs together."""

import pytest

from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.check import faults_of
from torchsmith.catalog.load import Layer


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
