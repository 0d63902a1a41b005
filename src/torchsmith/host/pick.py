"""The answer for one machine: the variants to use, how to get them, and what to make if none fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

import msgspec

from torchsmith.catalog import Catalog, Package, PythonVersion, Sm, Workload
from torchsmith.catalog.axes import BackendVersion
from torchsmith.catalog.gpu_names import product_of_name
from torchsmith.catalog.ranges import is_release
from torchsmith.core.problem import by_name
from torchsmith.core.text import grouped
from torchsmith.host.candidates import Holds
from torchsmith.host.cost import Cost, cost_of
from torchsmith.host.facts import HostFacts
from torchsmith.host.rank import Compatible, Incompatible, Ranking, rank
from torchsmith.host.resolve import Capability, GpuArch, capability_of, resolve
from torchsmith.matrix import (
    Accelerator,
    Accepted,
    Cell,
    CpuOnly,
    Cuda,
    LeftOut,
    Rejected,
    Target,
    Variant,
    assess,
)
from torchsmith.matrix.cells import why_unbuilt
from torchsmith.matrix.describe import why_not_newer
from torchsmith.matrix.expand import isas_with


class Stack(msgspec.Struct, frozen=True):
    """The packages that a person named; the last of them in the order of building represents all."""

    root: Package
    companions: tuple[Package, ...] = ()  # wanted in the same cell
    named: bool = False  # otherwise it is what the matrix has, all of it included

    def cells(self, everything: Iterable[Cell]) -> list[Cell]:
        """The lead's cells if the matrix has all of them."""
        cells = list(everything)
        names = {cell.name for cell in cells}
        own = (cell for cell in cells if cell.variant.package == self.root)
        return [
            cell for cell in own if all(cell.variant.of(other).name in names for other in self.companions)
        ]

    def exists(self, variant: Variant, catalog: Catalog, line: str) -> bool:
        """Whether all of them can be built for a cell of the lead's."""
        return all(
            isinstance(assess(variant.of(other), catalog, line), Accepted) for other in self.companions
        )

    def siblings(self, catalog: Catalog) -> list[Package]:
        """What belongs to a cell besides the lead: what is named or needed, else all that there is."""
        if not self.named:
            return [package for package in catalog.packages.values() if package != self.root]
        needed = {package for named in (self.root, *self.companions) for package in catalog.below(named)}
        return [package for package in catalog.packages.values() if package in needed - {self.root}]


def stack_of(names: Sequence[str], cells: Iterable[Cell], catalog: Catalog) -> Stack:
    """The packages that are named, or the first that a matrix has, which is torch wherever it has any."""
    if not names:
        packages = {cell.variant.package for cell in cells}
        return Stack(min(packages, key=lambda package: package.order, default=catalog.torch))
    named = {name: by_name("package", name, catalog.packages) for name in names}
    # The one with most below it: its recipe brings the others if the matrix does not have them.
    *companions, root = sorted(
        named.values(), key=lambda package: (len(catalog.below(package)), package.order)
    )
    return Stack(root, tuple(companions), named=True)


class Assigned(msgspec.Struct, frozen=True):
    """A chosen variant and the GPUs that it is for; none for a CPU-only build."""

    fit: Compatible
    gpus: tuple[GpuArch, ...]


class PickedVariants(msgspec.Struct, frozen=True):
    """As few variants as serve all GPUs, and the GPUs that none of them serves."""

    variants: tuple[Assigned, ...] = ()
    unserved: tuple[Sm, ...] = ()


class Pick(msgspec.Struct, frozen=True):
    """A machine, all candidates, the choice among them, and the cells that would suit it better or at all."""

    facts: HostFacts
    host: Capability
    workload: Workload
    ranking: Ranking
    choice: PickedVariants
    stack: tuple[Package, ...]  # that is wanted, the variants' own package last
    companions: tuple[str, ...] = ()  # names of the same cell in other packages, if the matrix has them
    wanted: tuple[Compatible, ...] = ()  # cells that the matrix lacks and that would suit better
    unbuildable: tuple[LeftOut, ...] = ()  # cells that would suit and that the stack cannot have
    near: tuple[Incompatible, ...] = ()  # for what is not served: what comes nearest, the best first

    @property
    def has_variant(self) -> bool:
        return bool(self.choice.variants)

    def also(self, variant: Variant) -> tuple[str, ...]:
        """The other packages of a cell that were asked for."""
        return tuple(variant.of(package).name for package in self.stack[:-1])

    def cost(self, variant: Variant, catalog: Catalog) -> Cost:
        """What building a cell costs, with the other packages that were asked for and what they need."""
        needed = {below.name: below for package in self.stack for below in catalog.below(package)}
        cores = self.facts.cores.value if self.facts.cores else 0
        return cost_of([variant.of(package) for package in needed.values()], catalog, cores)

    @property
    def served(self) -> bool:
        """Whether a variant runs here and every GPU has one that uses it."""
        idle = self.idle_others and not self.host.sms
        return self.has_variant and not (self.choice.unserved or self.host.unknown_gpus or idle)

    @property
    def idle_others(self) -> tuple[str, ...]:
        """GPUs of other makers than NVIDIA that no chosen variant uses, by name."""
        used = {arch for variant in self.choice.variants for arch in variant.gpus}
        targets = dict(self.host.targets)
        return tuple(name for name in self.host.non_nvidia_gpus if targets.get(name) not in used)


def why_older(cell: Cell, catalog: Catalog) -> str:
    """What keeps a cell from newer releases of torch; empty if it has the newest."""
    line = catalog.lines.get(cell.line)
    why = why_not_newer(cell.variant, line, catalog) if line else ""
    return f"torch {line.torch}; {why} (torchsmith line list)" if line and why else ""


def why_idle(names: Sequence[str], catalog: Catalog) -> str:
    """Why GPUs of other makers than NVIDIA get no variant."""
    known = {name: product_of_name(name, catalog) for name in names}
    whys = {name: why_unbuilt(gpu, catalog) for name, gpu in known.items() if gpu}
    reasons = grouped((whys.get(name) or "no candidate uses it", name) for name in names)
    return "; ".join(f"{', '.join(gpus)}: {why}" for why, gpus in reasons.items())


def pick(
    facts: HostFacts,
    cells: Iterable[Cell],
    catalog: Catalog,
    workload: Workload,
    packages: Sequence[str] = (),
    has: Holds | None = None,
    *,
    python: PythonVersion | None = None,
    torch: str = "",
) -> Pick:
    """Rank a matrix's cells of a package, or of several together (torch if none is named), and choose.

    `has`: whether the matrix, of which `cells` are the requested part, has a cell. `python` and `torch` are
    those of cells to make. Candidates that do not run are ranked only if something is not served.
    """
    facts = resolve(facts, catalog)
    host = capability_of(facts)
    everything = list(cells)
    stack = stack_of(packages, everything, catalog)
    own = stack.cells(everything)
    ranking = rank(host, own, catalog, workload, able=True)
    choice = choose(host, ranking)
    if not choice.variants or choice.unserved:
        ranking = rank(host, own, catalog, workload)
    if has is None:
        has = {cell.variant for cell in everything}.__contains__
    variants = [chosen.fit.variant for chosen in choice.variants]
    siblings = (variant.of(other) for variant in variants for other in stack.siblings(catalog))
    newest = max((cell.variant.python for cell in own or everything), default=max(catalog.pythons))
    python = python or newest

    def possible(packages: Stack, *, able: bool = True) -> Ranking:
        cells = possible_cells(host, python, packages, catalog, torch)
        return rank(host, cells, catalog, workload, able=able)

    wanted = cells_to_make(host, ranking, choice, lambda: possible(stack).fits)
    return Pick(
        facts,
        host,
        workload,
        ranking,
        choice,
        (*stack.companions, stack.root),
        companions=tuple(sibling.name for sibling in siblings if has(sibling)),
        wanted=wanted,
        unbuildable=()
        if wanted
        else _unbuildable(choice, stack, catalog, lambda: possible(Stack(catalog.torch)).fits),
        near=()
        if choice.variants and not choice.unserved
        else nearest_misses(choice.unserved, ranking, wanted, lambda: possible(stack, able=False).misses),
    )


def missing_commands(host: Capability) -> tuple[str, ...]:
    """What to run on a machine to know what decides and is not known of it."""
    asked = {
        "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv": (
            (host.sms is None and not host.targets and not (host.system or "").endswith("-darwin"))
            or bool(host.unknown_gpus)
            or (bool(host.sms) and host.driver is None)
        ),
        "lscpu": host.system is None or (host.features is None and host.system.endswith("-linux")),
        "cat /etc/os-release": host.system is None,
    }
    return tuple(command for command, missing in asked.items() if missing)


def choose(host: Capability, ranking: Ranking) -> PickedVariants:
    """The one variant that runs on all GPUs if there is one, else the smallest set that does."""
    gpus = tuple(arch for arch in host.archs if any(arch in fit.used for fit in ranking.fits))
    unserved = tuple(sm for sm in host.sms or () if sm not in gpus)
    if not gpus:
        # Beside a GPU that may well be served, a build for the CPU would leave it idle.
        fits = () if host.unknown_gpus else ranking.fits[:1]
        return PickedVariants(tuple(Assigned(fit, ()) for fit in fits), unserved)
    assigned: list[Assigned] = []
    while gpus:
        # Candidates that use most GPUs come first; between equals the order decides.
        fit = max(ranking.fits, key=lambda fit: len(set(gpus) & set(fit.used)))
        assigned.append(Assigned(fit, tuple(arch for arch in gpus if arch in fit.used)))
        gpus = tuple(arch for arch in gpus if arch not in fit.used)
    return PickedVariants(tuple(assigned), unserved)


def nearest_misses(
    unserved: Sequence[Sm],
    ranking: Ranking,
    wanted: Sequence[Compatible],
    possible: Callable[[], Sequence[Incompatible]],
) -> tuple[Incompatible, ...]:
    """What comes nearest to a machine: builds for its own GPU, in the matrix or not, before those for others,
    which are of no use if one for it can be made."""
    own = [miss for miss in ranking.misses if miss.variant.sm in unserved]
    if not own and unserved and not wanted:
        own = [miss for miss in possible() if miss.variant.sm in unserved]
    if own or wanted:
        return tuple(own)
    return tuple(miss for miss in ranking.misses if not unserved or miss.variant.sm)


def possible_cells(
    host: Capability, python: PythonVersion, stack: Stack, catalog: Catalog, torch: str = ""
) -> Iterator[Cell]:
    """Every cell that the catalog can build and that may concern a machine, in a matrix or not; `torch`: of
    this release, or of those that begin so."""
    targets: list[Target] = [CpuOnly()]
    targets.extend(Cuda(cuda, sm) for cuda, sm in product(catalog.cuda, host.sms or ()))
    targets.extend(other_targets(host.archs, catalog))
    for target in targets:
        yield from _cells_of_target(target, python, stack, catalog, torch)


@lru_cache(1024)
def _cells_of_target(
    target: Target, python: PythonVersion, stack: Stack, catalog: Catalog, torch: str
) -> tuple[Cell, ...]:
    """Every cell that the catalog can build for a target, one for each instruction set."""
    releases = [line.release for line in catalog.releases]
    cells = []
    for isa in isas_with(target, catalog.isas):
        variant = Variant(stack.root, python, target, isa)
        # An older line may build for a GPU that the newest has left behind; the name then states it.
        stated = (variant.changed(release=release) for release in releases)
        for candidate in (variant, *stated):
            decision = assess(candidate, catalog)
            if not isinstance(decision, Accepted) or not stack.exists(candidate, catalog, decision.line.name):
                continue
            wanted = not torch or is_release(decision.line.torch, torch)
            if wanted and decision.buildable(candidate):
                cells.append(Cell(candidate, decision.line.name, decision.warnings))
                break
    return tuple(cells)


def other_targets(archs: Sequence[GpuArch], catalog: Catalog) -> Iterator[Accelerator]:
    """What lines are built for that uses GPUs of other makers than NVIDIA."""
    builds = {
        (name, release): None
        for line in catalog.lines.values()
        for name, releases in line.backends.items()
        for release in releases
    }
    for name, release in builds:
        known = catalog.archs_of(catalog.backends[name])
        for arch in (arch for arch in archs if isinstance(arch, str) and arch in known):
            yield Accelerator.of(catalog.backends[name], BackendVersion(name, release), arch)


def _unbuildable(
    choice: PickedVariants, stack: Stack, catalog: Catalog, of_torch: Callable[[], Sequence[Compatible]]
) -> tuple[LeftOut, ...]:
    """For what is not served: the cell of torch that would serve it, with the fewest reasons against the
    stack."""
    if stack.root.is_torch or (choice.variants and not choice.unserved):
        return ()
    fits = of_torch()
    cells = []
    for sm in choice.unserved or (None,):
        refused = [
            LeftOut(fit.variant.of(package), decision.reasons)
            for fit in fits
            if sm is None or sm in fit.exact
            for package in (stack.root, *stack.companions)
            if isinstance(decision := assess(fit.variant.of(package), catalog, fit.cell.line), Rejected)
        ]
        cells += [min(refused, key=lambda left_out: len(left_out.reasons))] if refused else []
    return tuple(cells)


def cells_to_make(
    host: Capability, ranking: Ranking, choice: PickedVariants, possible: Callable[[], Sequence[Compatible]]
) -> tuple[Compatible, ...]:
    """For every GPU that no variant was compiled for (or for the CPU alone), the best cell that could be."""
    served = {sm for fit in ranking.fits for sm in fit.exact}
    lacking = [arch for arch in host.archs if arch not in served]
    if not lacking and choice.variants:
        return ()
    if host.unknown_gpus and not choice.variants:
        return ()
    fits = possible()
    best = [next((fit for fit in fits if arch in fit.exact), None) for arch in lacking]
    cells = tuple(fit for fit in best if fit is not None)
    return cells if cells or choice.variants else tuple(fits[:1])
