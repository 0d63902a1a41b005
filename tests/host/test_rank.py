"""Single rules about candidates: contradictions, and who asks more of a machine."""

from __future__ import annotations

from torchsmith.catalog import builtin_catalog
from torchsmith.host.rank import Compatible, Incompatible, asks_no_more, check_cell
from torchsmith.host.resolve import Capability
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


def test_a_candidate_that_assumes_a_cpu_asks_more_than_one_that_does_not() -> None:
    assumed = (Reason("isa", "the CPU has avx2"),)
    narrow, wide = (Compatible(CELLS[isa], assumptions=assumed) for isa in ("avx2", "avx512"))
    assert asks_no_more(narrow, wide, CATALOG)
    assert not asks_no_more(wide, narrow, CATALOG)
    assert not asks_no_more(narrow, Compatible(CELLS["avx512"]), CATALOG)
