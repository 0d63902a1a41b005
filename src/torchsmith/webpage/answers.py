"""Answers to "which one is mine?": what `pick` chooses for every machine that the page offers.

The page's script looks an answer up and shows it. A machine with several kinds of GPU, or one known by its
reports, is a question for `torchsmith pick`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, DriverVersion, Gpu
from torchsmith.catalog.facts import Gfx
from torchsmith.host.commands import IN_A_WORKSPACE, WITHOUT_ONE, Environment, build_commands
from torchsmith.host.pick import choose, stack_of
from torchsmith.host.rank import Compatible, Ranking, check_cell, order
from torchsmith.host.resolve import Capability, beside_gpu, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.matrix import Cell

NO_GPU = "none"
T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Numbers equal values in the order of their first use."""

    def __init__(self) -> None:
        self._places: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        return self._places.setdefault(value, len(self._places))

    @property
    def all(self) -> list[T]:
        return list(self._places)


class Offer(msgspec.Struct, frozen=True):
    """What a reader can choose from; every combination of a choice each has an answer."""

    gpus: tuple[Gpu, ...]  # and none at all
    gfx: tuple[Gfx, ...]  # AMD's, of which the matrix has builds
    cpus: tuple[Cpu, ...]
    systems: tuple[str, ...]  # for a reader who does not know the CPU
    drivers: dict[str, tuple[DriverVersion, ...]]  # by GPU, the oldest first; and unknown
    workloads: tuple[str, ...]

    def processors(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Every choice of a CPU by its value, and the option that states it."""
        yield from ((system, {"system": system}) for system in self.systems)
        yield from ((cpu.name, {"cpu": cpu.name}) for cpu in self.cpus)


def offer(cells: Iterable[Cell], catalog: Catalog) -> Offer:
    """What the page offers for a matrix: drivers between which answers can differ, and no Macs."""
    cells = list(cells)
    archs = {cell.variant.arch for cell in cells}
    toolkits = [catalog.cuda[cuda] for cuda in {cell.variant.cuda for cell in cells} if cuda in catalog.cuda]
    steps = {toolkit.min_driver for toolkit in toolkits}
    steps |= {toolkit.native_driver for toolkit in toolkits if toolkit.native_driver}
    return Offer(
        gpus=tuple(catalog.gpus.values()),
        gfx=tuple(gfx for gfx in catalog.gfx.values() if gfx.name in archs),
        cpus=tuple(cpu for cpu in catalog.cpus.values() if not cpu.mac),
        systems=tuple(dict.fromkeys(str(isa.platform) for isa in catalog.isas.values())),
        drivers={
            gpu.name: tuple(sorted({gpu.min_driver, *(step for step in steps if step > gpu.min_driver)}))
            for gpu in catalog.gpus.values()
        },
        workloads=tuple(catalog.workloads),
    )


def answers(cells: Iterable[Cell], catalog: Catalog, *, in_workspace: bool = True) -> dict[str, Any]:
    """The answer to every question as the script looks it up: `table[GPU][kind of CPU][driver][use]`.
    Commands are those in the workspace, or make one first."""
    everything = list(cells)
    own = _newest_pythons(stack_of((), everything, catalog).cells(everything))
    offered = offer(own, catalog)
    kinds: Interner[Capability] = Interner()
    facts = ((name, stated_facts(catalog, "the page", **cpu)) for name, cpu in offered.processors())
    cpus = {name: kinds(capability_of(resolve(own, catalog))) for name, own in facts}
    texts: Interner[str] = Interner()
    unique: Interner[tuple[str, tuple[int, ...]]] = Interner()

    by_use = [order(catalog, workload) for workload in catalog.workloads.values()]

    def by_workload(host: Capability, able: Sequence[Cell]) -> Iterator[int]:
        fits = _fits(host, able, catalog)
        for key in by_use:
            name, lines = answer_lines(host, Ranking(tuple(sorted(fits, key=key)), ()))
            yield unique((name, tuple(map(texts, lines))))

    def by_kind(gpus: tuple[Gpu, ...], *gfx: str) -> Iterator[list[list[int]]]:
        targets = tuple((name, name) for name in gfx)
        known = Capability(sms=tuple(gpu.sm for gpu in gpus), non_nvidia_gpus=gfx, targets=targets)
        drivers = [None, *(driver for gpu in gpus for driver in offered.drivers[gpu.name])]
        # What does not run on a less known machine does not run on a better known one.
        with_gpu = [fit.cell for fit in _fits(known, own, catalog)]
        for kind in kinds.all:
            host = replace(kind, sms=known.sms, non_nvidia_gpus=known.non_nvidia_gpus, targets=known.targets)
            for gpu in gpus:
                host = beside_gpu(host, gpu, catalog)
            able = [fit.cell for fit in _fits(host, with_gpu, catalog)]
            yield [list(by_workload(replace(host, driver=driver), able)) for driver in drivers]

    table = {NO_GPU: list(by_kind(()))} | {gpu.name: list(by_kind((gpu,))) for gpu in offered.gpus}
    table |= {gfx.name: list(by_kind((), gfx.name)) for gfx in offered.gfx}
    return {
        "drivers": offered.drivers,
        "workloads": offered.workloads,
        "cpus": cpus,
        "systems": offered.systems,
        "table": table,
        "answers": unique.all,
        "words": texts.all,
        "commands": _commands(own, IN_A_WORKSPACE if in_workspace else WITHOUT_ONE),
    }


def _fits(host: Capability, cells: Iterable[Cell], catalog: Catalog) -> list[Compatible]:
    """The cells that may run on a machine, as far as it is known."""
    return [fit for cell in cells if isinstance(fit := check_cell(host, cell, catalog), Compatible)]


def _newest_pythons(cells: Iterable[Cell]) -> list[Cell]:
    """Of cells that differ in their Python alone the newest, which `pick` prefers on every machine."""
    by_age = sorted(cells, key=lambda cell: (cell.variant.python.major, cell.variant.python.minor))
    kinds = {(cell.variant.changed(python=by_age[0].variant.python), cell.warnings): cell for cell in by_age}
    return list(kinds.values())


def answer_lines(host: Capability, ranking: Ranking) -> tuple[str, list[str]]:
    """Return the variant for a machine with one kind of GPU or none, empty if none runs, and why."""
    choice = choose(host, ranking)
    if not choice.variants:
        return "", ["No variant of this matrix runs on this machine."]
    fit = choice.variants[0].fit
    idle = ", ".join(map(str, choice.unserved))
    return fit.variant.name, [
        *([f"runs on the CPU only and leaves {idle} idle"] if idle else []),
        *(f"provided that {reason}" for reason in fit.assumptions),
        *fit.reasons,
        *(f"not proved: {reason}" for reason in fit.unproved),
    ]


def _commands(own: Iterable[Cell], here: Environment) -> list[str]:
    """How to have a variant, with {name} for its name."""
    cell = next(iter(own), None)
    if cell is None:
        return []
    return [command.replace(cell.name, "{name}") for command in build_commands(cell.variant, here).values()]
