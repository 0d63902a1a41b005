"""What a fleet asks of variants: machines equal in all that matters are one demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from torchsmith.catalog import Catalog, Sm, Workload
from torchsmith.host.fleet import MachineKind
from torchsmith.host.pick import choose
from torchsmith.host.rank import Compatible, asks_no_more, order, place_of_isa, rank
from torchsmith.host.resolve import Capability, GpuArch, capability_of, known_isas, resolve
from torchsmith.matrix import Cell


@dataclass(slots=True)
class Demand:
    """One GPU architecture of machines, or their CPUs if they have no GPU, that every candidate serves
    equally. `costs` has an entry for each candidate that serves it, by its place in the list of candidates;
    the lowest is the best that it can have.
    """

    host: Capability
    costs: dict[int, int] = field(default_factory=dict)
    fits: dict[int, Compatible] = field(default_factory=dict)  # of the same candidates, as pick orders them
    machines: int = 0
    weight: float = 0.0
    names: dict[str, None] = field(default_factory=dict)  # of the machines' kinds, each once

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two demands one."""
        assumed = ((index, cost, self.fits[index].assumptions) for index, cost in self.costs.items())
        return self.host, tuple(assumed)

    @property
    def label(self) -> str:
        """The machines in a few words."""
        host = self.host
        other_gpus = host.non_nvidia_gpus or (arch for arch in host.archs if isinstance(arch, str))
        gpu = ", ".join([*map(str, host.sms or ()), *host.unknown_gpus, *other_gpus])
        gpu = gpu or ("GPUs unknown" if host.sms is None else "no GPU")
        driver = f", driver {host.driver}" if host.driver and host.sms else ""
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"{next(iter(self.names))}{more} ({gpu}{driver})"

    def place(self, index: int) -> int:
        """The rank that pick gives a candidate for these machines, the best at 0."""
        return next(place for place, other in enumerate(self.fits) if other == index)


@dataclass(frozen=True, slots=True)
class HostGroup:
    """So many machines that have the same demands, one for each architecture of their GPUs."""

    machines: int
    demands: tuple[int, ...]  # by place


def demands(
    kinds: Iterable[MachineKind], cells: Sequence[Cell], catalog: Catalog, workload: Workload
) -> tuple[tuple[Demand, ...], tuple[HostGroup, ...]]:
    """The fleet as demands, in the order of its first machines, and which machines have which."""
    by_key: dict[tuple[object, ...], tuple[int, Demand]] = {}
    groups: Counter[tuple[int, ...]] = Counter()
    by_host: dict[int, tuple[tuple[int, ...], list[Demand]]] = {}
    place = {cell: index for index, cell in enumerate(cells)}
    for kind, host in _hosts(kinds, catalog):
        if id(host) not in by_host:
            asked = _demands_of(host, place, catalog, workload)
            placed = [by_key.setdefault(demand.key, (len(by_key), demand)) for demand in asked]
            by_host[id(host)] = tuple(at for at, _ in placed), [demand for _, demand in placed]
        places, own = by_host[id(host)]
        for demand in own:
            demand.machines += kind.count
            demand.weight += kind.count * kind.weight / len(own)
            demand.names[kind.name] = None
        groups[places] += kind.count
    return (
        tuple(demand for _, demand in by_key.values()),
        tuple(HostGroup(count, places) for places, count in groups.items()),
    )


def _hosts(kinds: Iterable[MachineKind], catalog: Catalog) -> Iterator[tuple[MachineKind, Capability]]:
    """Each kind with what of its machine decides; equal facts are resolved once, and equal hosts are one."""
    needed = frozenset[str]().union(*(isa.needs for isa in catalog.isas.values()))
    seen: dict[int, Capability] = {}
    hosts: dict[Capability, Capability] = {}
    for kind in kinds:
        if not kind.count:
            continue
        if id(kind.facts) not in seen:
            host = capability_of(resolve(kind.facts, catalog))
            features = host.features & needed if host.features is not None else None
            release = host.release if host.release and catalog.systems[host.release].cuda else ""
            host = replace(host, features=features, named=(), glibc="", release=release)
            seen[id(kind.facts)] = hosts.setdefault(host, host)
        yield kind, seen[id(kind.facts)]


def _demands_of(
    host: Capability, place: Mapping[Cell, int], catalog: Catalog, workload: Workload
) -> Iterator[Demand]:
    """A machine GPU by GPU, as pick ranks it: the candidates of a GPU are those that use it."""
    ranking = rank(host, place, catalog, workload, able=True)
    chosen = choose(host, ranking).variants
    used = [arch for arch in host.archs if any(arch in assigned.gpus for assigned in chosen)]
    for arch in dict.fromkeys([*(host.sms or ()), *used]):
        picked = next((assigned.fit for assigned in chosen if arch in assigned.gpus), None)
        seen = [_seen_by(fit, arch) for fit in ranking.fits if arch in fit.used]
        sms, targets = ((arch,), ()) if isinstance(arch, Sm) else ((), ((arch, arch),))
        own = replace(host, sms=sms, targets=targets, non_nvidia_gpus=(), unknown_gpus=())
        yield _demand(own, seen, picked, place, catalog, workload)
    if host.unknown_gpus or (host.non_nvidia_gpus and not host.sms and not used):
        # A build for the CPU would leave the GPU idle: as pick says, that is of no use.
        yield Demand(replace(host, sms=()))
    elif not host.sms and not used:
        picked = chosen[0].fit if chosen else None
        yield _demand(host, ranking.fits, picked, place, catalog, workload)


def _seen_by(fit: Compatible, arch: GpuArch) -> Compatible:
    """A candidate as one of the machine's GPUs sees it."""
    exact = tuple(exact for exact in fit.exact if exact == arch)
    return replace(fit, exact=exact, compatible=() if exact else (arch,), idle=())


def torch_of(cell: Cell, catalog: Catalog) -> tuple[int, ...]:
    """The release of torch that a candidate is of; one without a number is the newest."""
    line = catalog.lines.get(cell.line)
    return tuple(map(int, re.findall(r"\d+", line.torch))) if line and line.torch else (10**6,)


def _demand(
    host: Capability,
    fits: Iterable[Compatible],
    picked: Compatible | None,
    place: Mapping[Cell, int],
    catalog: Catalog,
    workload: Workload,
) -> Demand:
    """What each candidate costs. One that assumes more of the machine than pick would, or is of an older
    torch, does not serve it, and none costs less than one that pick puts before it."""
    newest = torch_of(picked.cell, catalog) if picked else ()
    able = [
        fit
        for fit in fits
        if picked and asks_no_more(fit, picked, catalog) and torch_of(fit.cell, catalog) >= newest
    ]
    able.sort(key=order(catalog, workload))
    isas = known_isas(host.features, host.system, catalog) or {fit.variant.isa for fit in able}
    steps = {isa: n for n, isa in enumerate(sorted(isas, key=lambda i: place_of_isa(i, catalog, workload)))}
    costs: dict[int, int] = {}
    cost = 0
    for fit in able:
        own = workload.lower_isa_cost * steps[fit.variant.isa]
        cost = max(cost, own + (workload.compatible_gpu_cost if fit.compatible else 0))
        costs[place[fit.cell]] = cost
    return Demand(host, costs, {place[fit.cell]: fit for fit in able})
