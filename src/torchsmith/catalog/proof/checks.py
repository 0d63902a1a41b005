"""The catalog held against what the tools said: pure functions of the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from torchsmith.catalog.facts import Cpu, CudaToolkit, Isa
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.proof.readings import Absent, Readings
from torchsmith.catalog.runs import isa_runs

Outcome = Literal["holds", "wrong", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One fact, the tool that knows, and what came of asking it."""

    fact: str
    tool: str
    outcome: Outcome
    detail: str = ""


def check_catalog(catalog: Catalog, readings: Readings) -> list[Check]:
    """Every fact that a tool can see."""
    return [
        *(check_targets(toolkit, readings) for toolkit in catalog.cuda.values()),
        *(check for isa in catalog.isas.values() for check in check_isa(isa, catalog, readings)),
        *(check_cpu(cpu, catalog, readings) for cpu in catalog.cpus.values()),
    ]


def check_targets(toolkit: CudaToolkit, readings: Readings) -> Check:
    """A toolkit's target list is exactly that of its ptxas."""
    wheel = toolkit.wheel.partition("==")[2]
    fact, tool = f"CUDA {toolkit.version}: {len(toolkit.targets)} targets", f"ptxas {wheel}"
    said = readings.ptxas.get(toolkit.version, Absent("not asked for"))
    if isinstance(said, Absent):
        return Check(fact, tool, "not checked", said.why)
    if said.release != toolkit.version:
        return Check(fact, tool, "wrong", f"the wheel's ptxas is release {said.release}")
    return _compare(fact, tool, map(str, toolkit.targets), map(str, said.targets))


def check_isa(isa: Isa, catalog: Catalog, readings: Readings) -> Iterator[Check]:
    """The flags define exactly the macros that are listed, and the features are those of the macros."""
    said = readings.macros(isa.platform, isa.flags)
    fact, tool = f"{isa.name}: {' '.join(isa.flags)}", f"gcc for {isa.platform}"
    if isinstance(said, Absent):
        outcome: Outcome = "wrong" if "refuses" in said.why else "not checked"
        yield Check(fact, tool, outcome, said.why)
        return
    yield _compare(fact, tool, isa.macros, said)
    implied = {
        feature.name
        for feature in catalog.features.values()
        if feature.platform == isa.platform and feature.macro in said
    }
    yield _compare(f"{isa.name}: {len(isa.features)} features", tool, isa.features, implied)


def check_cpu(cpu: Cpu, catalog: Catalog, readings: Readings) -> Check:
    """A CPU runs exactly the instruction sets that its features in archspec allow."""
    fact, tool = f"{cpu.title}: {', '.join(cpu.isas) or 'none'}", "archspec"
    if isinstance(readings.archspec, Absent):
        return Check(fact, tool, "not checked", readings.archspec.why)
    if not cpu.archspec:
        return Check(fact, tool, "not checked", f"archspec lacks it; {cpu.source}")
    features = readings.archspec.get(cpu.archspec)
    if features is None:
        return Check(fact, tool, "wrong", f"archspec has no {cpu.archspec}")
    able = [
        isa.name for isa in catalog.isas.values() if isa.platform == cpu.platform and isa_runs(isa, features)
    ]
    return _compare(fact, tool, cpu.isas, able)


def _compare(fact: str, tool: str, ours: Iterable[str], theirs: Iterable[str]) -> Check:
    listed, said = set(ours), set(theirs)
    differences = [
        *(f"{name} is not in the tool" for name in sorted(listed - said)),
        *(f"{name} is missing here" for name in sorted(said - listed)),
    ]
    return Check(fact, tool, "wrong" if differences else "holds", ", ".join(differences))
