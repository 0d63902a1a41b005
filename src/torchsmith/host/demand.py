"""What a fleet asks of variants: machines equal in all that matters are one demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torchsmith.catalog import Catalog, Workload
from torchsmith.host.fleet import Kind
from torchsmith.host.judge import Fits, judge
from torchsmith.host.rank import place_of_isa
from torchsmith.host.resolve import Capability, capability_of, known_isas, resolve
from torchsmith.matrix import Cell


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines that every candidate serves equally: their number, their weight, and each candidate's cost.

    A machine with GPUs of two architectures is half of two demands. `costs` has an entry for each candidate
    that runs there, by its place in the list of candidates; 0 is the best that this machine can have.
    """

    host: Capability
    machines: float
    weight: float
    kinds: tuple[str, ...]
    costs: dict[int, int]
    assumed: tuple[str, ...] = ()  # what must be true of these machines that the inventory does not say

    @property
    def label(self) -> str:
        """The machines in a few words."""
        gpu = ", ".join(map(str, self.host.sms or ())) or "no GPU"
        driver = f", driver {self.host.driver}" if self.host.driver and self.host.sms else ""
        more = f" and {len(self.kinds) - 1} more" if len(self.kinds) > 1 else ""
        return f"{self.kinds[0]}{more} ({gpu}{driver})"


def demands(
    kinds: Iterable[Kind], cells: Sequence[Cell], catalog: Catalog, workload: Workload
) -> tuple[Demand, ...]:
    """The fleet as demands, in the order of its first machines."""
    machines: dict[Capability, float] = {}
    weights: dict[Capability, float] = {}
    names: dict[Capability, dict[str, None]] = {}
    for kind, units in _units(kinds, catalog):
        for unit in units:
            machines[unit] = machines.get(unit, 0.0) + kind.count / len(units)
            weights[unit] = weights.get(unit, 0.0) + kind.count * kind.weight / len(units)
            names.setdefault(unit, {})[kind.name] = None
    found = []
    for unit in machines:
        costs, assumed = _costs(unit, cells, catalog, workload)
        found.append(Demand(unit, machines[unit], weights[unit], tuple(names[unit]), costs, assumed))
    return tuple(demand for demand in found if demand.machines)


def _units(kinds: Iterable[Kind], catalog: Catalog) -> Iterator[tuple[Kind, tuple[Capability, ...]]]:
    """Each kind's machine, GPU architecture by GPU architecture; equal facts are resolved once."""
    asked = frozenset[str]().union(*(isa.needs for isa in catalog.isas.values()))
    seen: dict[int, tuple[Capability, ...]] = {}
    for kind in kinds:
        if id(kind.facts) not in seen:
            host = capability_of(resolve(kind.facts, catalog))
            features = host.features & asked if host.features is not None else None
            host = replace(host, features=features)
            units = [replace(host, sms=(sm,)) for sm in host.sms or ()] or [host]
            seen[id(kind.facts)] = tuple(units)
        yield kind, seen[id(kind.facts)]


def _costs(
    host: Capability, cells: Sequence[Cell], catalog: Catalog, workload: Workload
) -> tuple[dict[int, int], tuple[str, ...]]:
    """What each candidate that serves a machine costs it. A GPU machine is served by what uses its GPU."""
    fits: dict[int, Fits] = {}
    for index, cell in enumerate(cells):
        verdict = judge(host, cell, catalog)
        if isinstance(verdict, Fits) and not verdict.idle and not (host.unknown_gpus and not verdict.used):
            fits[index] = verdict
    able = known_isas(host.features, host.system, catalog)
    able = able or tuple({fit.variant.isa: None for fit in fits.values()})
    steps = {isa: n for n, isa in enumerate(sorted(able, key=lambda i: place_of_isa(i, catalog, workload)))}
    costs = {
        index: workload.lower_isa_cost * steps[fit.variant.isa]
        + (workload.compatible_gpu_cost if fit.compatible else 0)
        for index, fit in fits.items()
    }
    assumed = dict.fromkeys(reason.text for fit in fits.values() for reason in fit.provided)
    return costs, tuple(assumed)
