"""Answers to "which one is mine?": what `pick` chooses for every machine that the page offers.

Only machines that exist are offered: a product, the systems that have it, and their CPUs. The page's script
looks an answer up and shows it. A machine with several kinds of GPU, or one known by its reports, is a
question for `torchsmith pick`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, Cpu, DriverVersion, Gpu, PythonVersion
from torchsmith.catalog.runs import driver_ended, drivers_of
from torchsmith.host.pick import choose, stack_of
from torchsmith.host.rank import Compatible, Ranking, check_cell, order, possible
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.host.wheel_needs import WheelWish
from torchsmith.host.wheels import WheelOffer, features_asked, wheels_for
from torchsmith.matrix import Cell

NO_GPU, MAC = "none", "mac"
CHOSEN = "{gpu}"  # in a text: the product that is chosen
EXAMPLE = "RTX 4090"  # what is chosen at first, if the matrix has it
# How to have a build, with {name} for its name; the page may be read anywhere, by people with the workspace.
IN_WORKSPACE = "torchsmith apply{where} && torchsmith build{where} {name}"
WITHOUT_ONE = (
    "torchsmith init mine --cell {name} && torchsmith apply -w mine && torchsmith build -w mine {name}"
)
MAKERS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}  # all others are Arm's
SHELVES = (r"(RTX|GTX|GT|MX) ?\d+( \w\w?)?$|Titan", "RTX|Quadro")  # NVIDIA's desktop cards, workstation cards
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
    maker: str  # under which they are listed
    names: tuple[str, ...]
    gpu: str  # as --gpu takes it; empty: the GPU of a Mac
    systems: tuple[str, ...]
    arch: str = ""
    cpu: str = ""  # the only one that they come with
    # Branches between which answers can differ, the oldest first; that one is older than all that serve it.
    drivers: tuple[DriverVersion, ...] = ()
    ends: bool = False  # no driver after the last of them supports it


class Offer(msgspec.Struct, frozen=True):
    """What a reader can choose from."""

    products: tuple[PageProduct, ...]
    cpus: dict[str, Cpu]
    workloads: tuple[str, ...]
    pythons: tuple[PythonVersion, ...]  # that a build or a wheel is for

    def listed(self) -> list[tuple[str, PageProduct]]:
        """Products by name; of NVIDIA's the cards for desktops, workstations and data centers, then those
        soldered to a CPU, each the newest first."""
        named = [(name, product) for product in self.products for name in product.names]
        return sorted(named, key=lambda one: _shelf(*one) if one[1].maker == "NVIDIA" else 0)

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
    """What the page offers for a matrix: all GPUs that it has builds for, or PyTorch has wheels for."""
    cells = list(cells)
    archs = {cell.variant.arch for cell in cells}
    linux, rocm, mps = (catalog.backends[name].systems for name in ("cpu", "rocm", "mps"))
    indexes = [index for index in catalog.wheels.values() if index.system in (*linux, *mps)]
    cudas = {cell.variant.cuda for cell in cells} | {index.cuda for index in indexes}
    drivers = {driver for cuda in cudas if cuda for driver in drivers_of(catalog.cuda[cuda], windows=False)}
    steps = {driver for driver in drivers if driver}
    pythons = {cell.variant.python for cell in cells}
    for wheel in (wheel for wheel in catalog.published_wheels.values() if wheel.index in indexes):
        pythons.update(wheel.pythons)
    coded = {str(arch) for arch in archs}.union(*(index.gfx for index in indexes))
    amd = (
        gfx
        for gfx in reversed(catalog.gfx.values())
        if gfx.name in coded or (gfx.override and gfx.override[1] in coded)
    )
    xpus = {gpu: index.system for index in indexes for gpu in index.intel}
    return Offer(
        products=(
            PageProduct(NO_GPU, "", ("no GPU (for one that is not listed: torchsmith pick)",), NO_GPU, linux),
            *(product for gpu in reversed(catalog.gpus.values()) for product in _nvidia(gpu, steps, catalog)),
            *(
                PageProduct(gfx.name, "AMD", gfx.products or (gfx.title,), gfx.name, rocm, gfx.name)
                for gfx in amd
            ),
            *(
                PageProduct(name, "Intel", gpu.products, gpu.title, (xpus[name],))
                for name, gpu in catalog.intel.items()
                if name in xpus
            ),
            PageProduct(MAC, "Apple", ("Mac with Apple silicon",), "", mps),
        ),
        cpus=catalog.cpus,
        workloads=tuple(catalog.workloads),
        pythons=tuple(sorted(pythons)),
    )


def _shelf(name: str, product: PageProduct) -> int:
    """The place of one of NVIDIA's GPUs in the list, which decides nothing else."""
    shelves = (place for place, pattern in enumerate(SHELVES) if re.match(pattern, name))
    return len(SHELVES) + 1 if product.cpu else next(shelves, len(SHELVES))


def _nvidia(gpu: Gpu, steps: Collection[DriverVersion], catalog: Catalog) -> Iterator[PageProduct]:
    """The cards of an architecture together, and each product that is soldered to a CPU."""
    oldest = max(gpu.min_driver, min(steps))
    serving = {step for step in (*steps, oldest) if step >= oldest and not driver_ended(step, gpu)}
    older = DriverVersion((oldest.parts[0] - 1,), f"older than {oldest.parts[0]}")
    branches = sorted({older, *(DriverVersion(step.parts[:1]) for step in serving)})
    drivers = () if gpu.tegra else tuple(branches)  # a Jetson has the driver of its JetPack
    cards = tuple(part for part in gpu.parts or (gpu.title,) if part not in gpu.superchips)
    only, ends = gpu.cpus[0] if len(gpu.cpus) == 1 else "", gpu.last_driver is not None
    yield PageProduct(gpu.name, "NVIDIA", cards, gpu.name, gpu.platforms, gpu.name, only, drivers, ends)
    for part, cpu in gpu.superchips.items():
        system = (str(catalog.cpus[cpu].platform),)
        yield PageProduct(part, "NVIDIA", (part,), part, system, gpu.name, cpu, drivers)


class _Answers:
    """The answers of a matrix, each of them once."""

    def __init__(self, cells: Iterable[Cell], catalog: Catalog) -> None:
        everything = list(cells)
        self.catalog = catalog
        self.own = stack_of((), everything, catalog).cells(everything)
        self.offered = offer(self.own, catalog)
        self.built = {cell.variant.python for cell in self.own}
        self.by_use = [order(catalog, workload) for workload in catalog.workloads.values()]
        systems = {system for product in self.offered.products for system in product.systems}
        self.asked = features_asked(systems, self.offered.pythons, catalog)
        self.texts: Interner[str] = Interner()
        self.builds: Interner[tuple[str, tuple[int, ...], bool]] = Interner()
        self.wheels_of: dict[Capability, list[int]] = {}
        self.wheels: Interner[tuple[tuple[int, ...], ...]] = Interner()

    def of_product(self, product: PageProduct) -> tuple[dict[str, int], list[Any]]:
        """The machine of each CPU by number, and of each machine the answers by driver."""
        hosts: Interner[Capability] = Interner()
        places: dict[tuple[str, tuple[str, ...] | None], int] = {}
        cpus = {}
        for system, machines in self.offered.machines(product).items():
            for cpu, words in machines.items():
                known = self.catalog.cpus.get(cpu)
                kind = (system, known.isas if known else None)  # of CPUs that are alike one is asked
                if kind not in places:
                    facts = stated_facts(self.catalog, "the page", **words)
                    places[kind] = hosts(_named(capability_of(resolve(facts, self.catalog))))
                cpus[cpu] = places[kind]
        return cpus, [[*self._of_machine(host, product.drivers)] for host in hosts.all]

    def _of_machine(self, host: Capability, drivers: Iterable[DriverVersion]) -> Iterator[Any]:
        """Yield for each driver, an unknown one first, the builds by Python and use, and the wheels by
        Python."""
        # What does not run on a less known machine does not run on a better known one.
        able = [*possible(host, self.own, self.catalog)]
        for driver in (None, *drivers):
            known = replace(host, driver=driver)
            verdicts = [check_cell(known, cell, self.catalog) for cell in able]
            fits = [verdict for verdict in verdicts if isinstance(verdict, Compatible)]
            able = able if driver else [fit.cell for fit in fits]
            yield [*self._builds(known, fits)], self._wheels(known)

    def _builds(self, host: Capability, fits: Sequence[Compatible]) -> Iterator[list[int]]:
        """Yield the builds by use for each Python, any Python first."""
        ordered = [sorted(fits, key=key) for key in self.by_use]
        of_any = [*self._by_use(host, ordered)]
        yield of_any
        for python in self.offered.pythons:
            if python not in self.built:
                text = self.texts(f"No build of this matrix is for Python {python}.")
                yield [self.builds(("", (text,), False))] * len(of_any)
            else:
                own = [[fit for fit in fits if fit.variant.python == python] for fits in ordered]
                yield of_any if own == ordered else [*self._by_use(host, own)]

    def _by_use(self, host: Capability, ordered: Iterable[Sequence[Compatible]]) -> Iterator[int]:
        for fits in ordered:
            # Whatever the use, the best leaves as few GPUs idle as possible.
            best = [fit for fit in fits if len(fit.idle) == len(fits[0].idle)]
            name, lines = answer_lines(host, Ranking(tuple(best)), self.catalog)
            idle = bool(best and best[0].idle and not best[0].used)
            yield self.builds((name, tuple(map(self.texts, lines)), idle))

    def _wheels(self, host: Capability) -> list[int]:
        """The wheels by Python, an unknown one first."""
        features = None if host.features is None or not self.asked else host.features & self.asked
        host = replace(host, features=features, kind="")
        if host not in self.wheels_of:
            self.wheels_of[host] = [
                self._wheel(wheels_for(host, self.catalog, WheelWish(python)))
                for python in (None, *self.offered.pythons)
            ]
        return self.wheels_of[host]

    def _wheel(self, offers: Sequence[WheelOffer]) -> int:
        return self.wheels(tuple(tuple(map(self.texts, wheel_lines(wheel))) for wheel in offers))


def answers(
    cells: Iterable[Cell], catalog: Catalog, *, in_workspace: bool = True, where: str = ""
) -> dict[str, Any]:
    """The answer to every question as the script looks it up.

    `table[product]` has a number for each CPU, and for each number and driver the builds as `[Python][use]`
    and the wheels as `[Python]`; the first driver is an unknown one, the first Python is any. Commands are
    those in the workspace, which the option `where` names, or make one first.
    """
    made = _Answers(cells, catalog)
    offered = made.offered
    command = IN_WORKSPACE.replace("{where}", where) if in_workspace else WITHOUT_ONE
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
        "pythons": offered.pythons,
        "table": {product.key: made.of_product(product) for product in offered.products},
        "builds": made.builds.all,
        "wheels": made.wheels.all,
        "words": made.texts.all,
        "commands": [command] if made.own else [],
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


def wheel_lines(wheel: WheelOffer) -> list[str]:
    """Return how to install a wheel, with which driver there is a newer one, how to install that, what it is,
    and what to know of it."""
    newer = [f"With driver {wheel.other.driver} or newer:", wheel.other.pip] if wheel.other else ["", ""]
    kind = f"CUDA {wheel.cuda}" if wheel.cuda else f"ROCm {wheel.rocm}" if wheel.rocm else wheel.gpu or "CPU"
    return [
        wheel.pip,
        *newer,
        f"{wheel.publisher}'s wheel: torch {wheel.torch} for {kind}",
        *wheel.drawbacks,
        *(f"if {condition}" for condition in wheel.assumptions),
        *filter(None, [", ".join(wheel.needs), "known from release notes alone" if wheel.unproved else ""]),
    ]


def answer_lines(host: Capability, ranking: Ranking, catalog: Catalog) -> tuple[str, list[str]]:
    """Return the variant for a machine with one kind of GPU or none, empty if none runs, and why."""
    choice = choose(host, ranking)
    if not choice.variants:
        return "", ["No build of this matrix runs on this machine."]
    fit = choice.variants[0].fit
    idle = ", ".join(map(host.called, choice.unserved))
    features = f"the CPU has {catalog.isas[fit.variant.isa].title}"
    conditions = (features if reason.code == "isa" else reason.text for reason in fit.assumptions)
    return fit.variant.name, [
        *([f"runs on the CPU only and leaves {idle} idle"] if idle else []),
        *fit.reasons,
        *(f"if {condition}" for condition in conditions),
        *(f"untested: {reason}" for reason in fit.unproved),
    ]
