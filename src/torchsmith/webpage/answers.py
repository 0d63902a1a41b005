"""Answers to "which one is mine?": what `pick` chooses for every machine that the page offers.

Only machines that exist are offered: a product, the systems that have it, and their CPUs. The page's script
looks an answer up and shows it. A machine with several kinds of GPU, or one known by its reports, is a
question for `torchsmith pick`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, DriverVersion, Gpu
from torchsmith.host.pick import choose, stack_of
from torchsmith.host.rank import Ranking, driver_steps, order, rank
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.host.wheels import WheelOffer, builds_first, wheels_for
from torchsmith.matrix import Cell

NO_GPU, MAC = "none", "mac"
CHOSEN = "{gpu}"  # in a text: the product that is chosen
EXAMPLE, EXAMPLE_CPU = "RTX 4090", "zen4"  # what is chosen at first, if the matrix has it
# How to have a build, with {name} for its name; the page may be read anywhere, by people with the workspace.
IN_WORKSPACE = "torchsmith apply && torchsmith build {name}"
WITHOUT_ONE = (
    "torchsmith init mine --cell {name} && torchsmith apply -w mine && torchsmith build -w mine {name}"
)
MAKERS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}  # all others are Arm's
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


class PageProduct(msgspec.Struct, frozen=True):
    """GPUs that have the same answers, and the machines that they are found in."""

    key: str
    group: str  # under which they are listed
    names: tuple[str, ...]
    gpu: str  # as --gpu takes it; empty: the GPU of a Mac
    systems: tuple[str, ...]
    cpu: str = ""  # the only one that they come with
    # Branches between which answers can differ, the oldest first; that one is older than all that serve it.
    drivers: tuple[DriverVersion, ...] = ()
    ends: bool = False  # no driver after the last of them supports it


class Offer(msgspec.Struct, frozen=True):
    """What a reader can choose from."""

    products: tuple[PageProduct, ...]
    cpus: dict[str, Cpu]
    workloads: tuple[str, ...]

    def machines(self, product: PageProduct) -> dict[str, dict[str, dict[str, str]]]:
        """The machines of a product by system and CPU, and the options that state them. The system itself is
        the value of a CPU that is not listed."""
        return {system: dict(self._cpus(product, system)) for system in product.systems}

    def _cpus(self, product: PageProduct, system: str) -> Iterator[tuple[str, dict[str, str]]]:
        gpu = {"gpu": product.gpu} if product.gpu else {}
        if not product.cpu:
            yield system, {"system": system} | gpu
        for cpu in self.cpus.values():
            if (cpu.system or cpu.platform) == system and product.cpu in ("", cpu.name):
                yield cpu.name, {"cpu": cpu.name} | gpu


def offer(cells: Iterable[Cell], catalog: Catalog) -> Offer:
    """What the page offers for a matrix; of AMD's GPUs those that it has builds for."""
    cells = list(cells)
    archs = {cell.variant.arch for cell in cells}
    linux, rocm, mps = (catalog.backends[name].systems for name in ("cpu", "rocm", "mps"))
    return Offer(
        products=(
            PageProduct(NO_GPU, "", ("no GPU, or one that is not listed",), NO_GPU, linux),
            *(product for gpu in reversed(catalog.gpus.values()) for product in _nvidia(gpu, catalog)),
            *(
                PageProduct(gfx.name, "AMD", (f"{gfx.title} ({gfx.name})",), gfx.name, rocm)
                for gfx in catalog.gfx.values()
                if gfx.name in archs
            ),
            PageProduct(MAC, "Apple", ("Mac with Apple silicon",), "", mps),
        ),
        cpus=catalog.cpus,
        workloads=tuple(catalog.workloads),
    )


def _nvidia(gpu: Gpu, catalog: Catalog) -> Iterator[PageProduct]:
    """The cards of an architecture together, and each product that is soldered to a CPU."""
    group = f"NVIDIA {gpu.title} ({gpu.name})"
    steps = driver_steps(Capability(sms=(gpu.sm,)), catalog)
    serving = {DriverVersion(step.parts[:1]) for step in steps if step >= gpu.min_driver}
    older = {DriverVersion((min(serving).parts[0] - 1,))} if serving else set[DriverVersion]()
    drivers = tuple(sorted(serving | older))
    cards = tuple(part for part in gpu.parts or (gpu.title,) if part not in gpu.superchips)
    only, ends = gpu.cpus[0] if len(gpu.cpus) == 1 else "", gpu.last_driver is not None
    yield PageProduct(gpu.name, group, cards, gpu.name, gpu.platforms, only, drivers, ends)
    for part, cpu in gpu.superchips.items():
        yield PageProduct(part, group, (part,), part, (str(catalog.cpus[cpu].platform),), cpu, drivers)


def answers(cells: Iterable[Cell], catalog: Catalog, *, in_workspace: bool = True) -> dict[str, Any]:
    """The answer to every question as the script looks it up.

    `table[product]` has a number for each CPU, and for each number `[driver][use]`; the first driver is an
    unknown one. Commands are those in the workspace, or make one first.
    """
    everything = list(cells)
    own = stack_of((), everything, catalog).cells(everything)
    offered = offer(own, catalog)
    texts: Interner[str] = Interner()
    unique: Interner[tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...], bool]] = Interner()
    workloads = [*catalog.workloads.values()]
    by_use = [order(catalog, workload) for workload in workloads]

    releases = (wheel.release for wheel in catalog.published_wheels.values())
    asked = {feature for release in releases for needed in release.needs.values() for feature in needed}

    def by_workload(host: Capability, able: Iterable[Cell]) -> Iterator[int]:
        # Of a CPU only what a wheel needs of it decides about wheels.
        features = None if host.features is None else host.features & asked
        offers, lines_of = wheel_lines(replace(host, features=features, kind=""), catalog)
        wheels = tuple(tuple(map(texts, lines)) for lines in lines_of)
        fits = rank(host, able, catalog, workloads[0], able=True).fits
        # The best of any use leaves as few GPUs idle as the first use's.
        best = [fit for fit in fits if len(fit.idle) == len(fits[0].idle)]
        idle = bool(best and best[0].idle and not best[0].used)
        first = builds_first(offers, own=in_workspace, idle=idle)
        for key in by_use:
            name, lines = answer_lines(host, Ranking(tuple(sorted(best, key=key))))
            yield unique((name, tuple(map(texts, lines)), wheels, first))

    def of_product(product: PageProduct) -> tuple[dict[str, int], list[list[list[int]]]]:
        hosts: Interner[Capability] = Interner()
        cpus = {
            cpu: hosts(_named(capability_of(resolve(stated_facts(catalog, "the page", **words), catalog))))
            for machines in offered.machines(product).values()
            for cpu, words in machines.items()
        }
        rows = []
        for host in hosts.all:
            # What does not run on a less known machine does not run on a better known one.
            able = [fit.cell for fit in rank(host, own, catalog, workloads[0], able=True).fits]
            drivers = (None, *product.drivers)
            rows.append([list(by_workload(replace(host, driver=driver), able)) for driver in drivers])
        return cpus, rows

    return {
        "products": {
            product.key: {
                "gpu": product.gpu,
                "drivers": product.drivers,
                "ends": product.ends,
                "systems": {system: list(cpus) for system, cpus in offered.machines(product).items()},
            }
            for product in offered.products
        },
        "cpus": {cpu.name: [_label(cpu), _maker(cpu)] for cpu in offered.cpus.values()},
        "workloads": offered.workloads,
        "table": {product.key: of_product(product) for product in offered.products},
        "answers": unique.all,
        "words": texts.all,
        "commands": [IN_WORKSPACE if in_workspace else WITHOUT_ONE] if own else [],
        "example": EXAMPLE_CPU,
    }


def _label(cpu: Cpu) -> str:
    """A CPU by products that have it."""
    return f"{', '.join(cpu.examples)} ({cpu.title})" if cpu.examples else cpu.title


def _maker(cpu: Cpu) -> str:
    vendor = cpu.ids[0].partition("/")[0] if cpu.ids else ""
    return "Apple" if cpu.mac else MAKERS.get(vendor, "Arm")


def _named(host: Capability) -> Capability:
    """A machine whose NVIDIA GPU is called as the product that a reader chooses."""
    return replace(host, named=tuple((CHOSEN, sm) for sm in host.sms or ()))


@lru_cache(8192)
def wheel_lines(host: Capability, catalog: Catalog) -> tuple[list[WheelOffer], list[list[str]]]:
    """Return the wheels for a machine, and of each what to know, how to install it, and the same of one for a
    newer driver."""
    offers = wheels_for(host, catalog)
    lines = []
    for wheel in offers:
        pythons = " to ".join(dict.fromkeys((str(wheel.pythons[0]), str(wheel.pythons[-1]))))
        own = ["; ".join([f"{wheel.title} for Python {pythons}", *wheel.about]), wheel.pip]
        lines.append(own + ([f"{wheel.other.when}:", wheel.other.pip] if wheel.other else []))
    return offers, lines


def answer_lines(host: Capability, ranking: Ranking) -> tuple[str, list[str]]:
    """Return the variant for a machine with one kind of GPU or none, empty if none runs, and why."""
    choice = choose(host, ranking)
    if not choice.variants:
        return "", ["No build of this matrix runs on this machine."]
    fit = choice.variants[0].fit
    idle = ", ".join(map(host.called, choice.unserved))
    return fit.variant.name, [
        *([f"runs on the CPU only and leaves {idle} idle"] if idle else []),
        *(f"provided that {reason}" for reason in fit.assumptions),
        *fit.reasons,
        *(f"untested: {reason}" for reason in fit.unproved),
    ]
