"""Single rules about candidates: contradictions, and who asks more of a machine."""

from __future__ import annotations

from torchsmith.catalog import builtin_catalog
from torchsmith.host.rank import Compatible, Incompatible, asks_no_more, check_cell, rank
from torchsmith.host.read_report import read_report
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.matrix import Reason
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = {
    cell.variant.isa: cell for cell in open_workspace(None, "every").matrix.cells if not cell.variant.arch
}


def test_nothing_runs_on_a_machine_whose_facts_contradict_each_other() -> None:
    verdict = check_cell(Capability(conflict="two systems"), CELLS["avx2"], CATALOG)
    assert isinstance(verdict, Incompatible)
    assert [reason.code for reason in verdict.reasons] == ["conflict"]


def test_the_builds_nearest_to_an_old_cpu_ask_least_of_it() -> None:
    old = Capability(system="x86_64-linux", features=frozenset({"sse2"}), sms=())
    cells = [cell for isa, cell in CELLS.items() if CATALOG.isas[isa].platform == "x86_64-linux"]
    missed = rank(old, cells, CATALOG, CATALOG.workloads["training"]).misses
    needed = [len(CATALOG.isas[miss.variant.isa].needs) for miss in missed]
    assert needed == sorted(needed)


def test_an_unknown_driver_of_windows_has_its_own_numbers() -> None:
    facts = read_report("Linux version 5.15.90.1-microsoft-standard-WSL2 x86_64\nGPU: RTX 4090", "wsl.txt")
    host = capability_of(resolve(facts, CATALOG))
    cells = open_workspace(None, "every").cells_of(CATALOG.torch)
    own = [
        cell for cell in cells if cell.variant.sm == (host.sms or (None,))[0] and cell.variant.isa == "avx2"
    ]
    fits = rank(host, own, CATALOG, CATALOG.workloads["general"]).fits
    assert {(str(fit.variant.cuda), str(fit.driver)) for fit in fits} >= {("12.8", "528.33")}


def test_a_candidate_that_assumes_a_cpu_asks_more_than_one_that_does_not() -> None:
    assumed = (Reason("isa", "the CPU has avx2"),)
    narrow, wide = (Compatible(CELLS[isa], assumptions=assumed) for isa in ("avx2", "avx512"))
    assert asks_no_more(narrow, wide, CATALOG)
    assert not asks_no_more(wide, narrow, CATALOG)
    assert not asks_no_more(narrow, Compatible(CELLS["avx512"]), CATALOG)
