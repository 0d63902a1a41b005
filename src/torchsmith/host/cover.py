"""Which variants to build for a fleet: the fewest that serve all, the best k, what one more buys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from torchsmith.catalog import Catalog, Workload
from torchsmith.catalog.axes import DriverVersion
from torchsmith.host.cost import Cost, cost_of
from torchsmith.host.demand import Demand, demands, torch_of
from torchsmith.host.fleet import Fleet
from torchsmith.host.pick import (
    PickedVariants,
    cells_to_make,
    nearest_misses,
    possible_cells,
    stack_of,
    why_idle,
    why_older,
)
from torchsmith.host.rank import Ranking, rank
from torchsmith.host.resolve import Capability
from torchsmith.host.solve import CoverModel, Proof, Solution
from torchsmith.matrix import Cell, Flavor, Matrix


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that are alike, and the variant that they get."""

    label: str
    machines: int
    weight: float
    kinds: tuple[str, ...]
    gpus: tuple[str, ...] | None  # None: unknown
    driver: DriverVersion | None
    variant: str | None
    slower: bool  # than with the best candidate
    assumptions: tuple[str, ...] = ()  # what must be true for it that the inventory does not say
    older: str = ""  # their torch is an older one, and why
    why: str = ""  # they have no better one
    create: str = ""  # the cell that would serve them, if no candidate does


class CoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Variants, how many machines they serve and how well, and what they cost."""

    variants: tuple[str, ...]
    at_their_best: int
    slower: int
    not_served: int  # machines with a GPU that no chosen variant uses, or on which none runs
    in_part: int  # those not served on all of their GPUs, but on some
    cost: Cost
    proof: Proof

    @property
    def served(self) -> int:
        return self.at_their_best + self.slower


class Cover:
    """A fleet, and the candidates of a matrix for it."""

    def __init__(
        self,
        fleet: Fleet,
        cells: Iterable[Cell],
        catalog: Catalog,
        workload: Workload,
        packages: Sequence[str] = (),
    ) -> None:
        everything = list(cells)
        self.stack = stack = stack_of(packages, everything, catalog)
        wanted = {stack.root, *stack.siblings(catalog)}
        self.packages = [
            package for package in Matrix(tuple(everything)).packages(catalog) if package in wanted
        ]
        self.names = {cell.name: cell for cell in everything}
        # A torch and its companions serve the same machines: one package's cells represent all of them.
        self.cells = sorted(stack.cells(everything), key=_preference)
        self.catalog, self.workload = catalog, workload
        self.demands, self.groups = demands(fleet.kinds, self.cells, catalog, workload)
        self.programme = CoverModel(self.demands, len(self.cells))

    def fewest(self) -> CoverPlan:
        """The fewest variants that serve every machine that any candidate serves."""
        return self._plan(self.programme.fewest())

    def best(self, count: int) -> CoverPlan:
        """The best plan with at most so many variants."""
        return self._plan(self.programme.best(count))

    def curve(self, limit: int) -> tuple[CoverPlan, ...]:
        """Best plans of growing size, until another variant would buy nothing."""
        plans: list[CoverPlan] = []
        for count in range(1, limit + 1):
            plan = self.best(count)
            if plans and len(plan.variants) <= len(plans[-1].variants):
                break
            plans.append(plan)
            if not plan.slower and plan.not_served <= self.unservable:
                break
        return tuple(plans)

    @property
    def unservable(self) -> int:
        """Machines that no candidate serves, or not on all of their GPUs."""
        lost = {at for at, demand in enumerate(self.demands) if not demand.costs}
        return sum(group.machines for group in self.groups if lost & set(group.demands))

    def served(self, plan: CoverPlan) -> list[Served]:
        """Return what each demand gets from a plan, and why it gets nothing better."""
        chosen = [index for index, cell in enumerate(self.cells) if cell.name in plan.variants]
        return [
            self._serve(demand, *given)
            for demand, given in zip(self.demands, self._given(chosen), strict=True)
        ]

    def machines(self, served: Sequence[Served], wanted: Callable[[list[Served]], bool]) -> int:
        """Count the machines by what their GPUs get."""
        return sum(group.machines for group in self.groups if wanted([served[at] for at in group.demands]))

    def _serve(self, demand: Demand, index: int | None, slower: bool) -> Served:
        missing = self.to_make(demand) if index is None else None
        why = self._why_unserved(demand, missing) if index is None else ""
        if slower:
            best = self.cells[min(demand.costs, key=lambda candidate: demand.costs[candidate])]
            why = f"has {self.cells[index or 0].name}, {best.name} would be best"
        return Served(
            label=demand.label,
            machines=demand.machines,
            weight=demand.weight,
            kinds=tuple(demand.names),
            gpus=None if demand.host.sms is None else tuple(map(str, demand.host.archs)),
            driver=demand.host.driver,
            variant=None if index is None else self.cells[index].name,
            slower=slower,
            assumptions=()
            if index is None
            else tuple(reason.text for reason in demand.fits[index].assumptions),
            older=self._why_older(index),
            why=why,
            create=missing.name if missing else "",
        )

    def _why_older(self, index: int | None) -> str:
        """Why machines get an older torch than the newest of all candidates; empty if they do not."""
        newest = max(torch_of(cell, self.catalog) for cell in self.cells)
        if index is None or torch_of(self.cells[index], self.catalog) == newest:
            return ""
        return why_older(self.cells[index], self.catalog)

    def to_make(self, demand: Demand) -> Cell | None:
        """The cell that would serve what no candidate serves: the same that pick would make."""
        if demand.costs:
            return None
        cells = self._possible(demand.host)
        fits = rank(demand.host, cells, self.catalog, self.workload, able=True).fits
        makeable = cells_to_make(demand.host, Ranking(), PickedVariants(), lambda: fits)
        return next((fit.cell for fit in makeable if fit.used or not demand.host.archs), None)

    def _why_unserved(self, demand: Demand, missing: Cell | None) -> str:
        """Return why the nearest candidate does not run, or that the plan left the machine out."""
        if demand.costs:
            index = min(demand.costs, key=lambda index: demand.costs[index])
            return f"{self.cells[index].name} would serve it"
        if missing:
            return f"{missing.name} would serve it and is not among the candidates"
        if retired := [sm for sm in demand.host.sms or () if sm in self.catalog.retired]:
            return self.catalog.retired[retired[0]].ended
        if demand.host.non_nvidia_gpus and not demand.host.sms and not demand.host.unknown_gpus:
            return why_idle(demand.host.non_nvidia_gpus, self.catalog)
        host = demand.host
        candidates = [cell for cell in self.cells if cell.variant.cuda or not host.sms]
        misses = nearest_misses(
            host.sms or (),
            rank(host, candidates, self.catalog, self.workload),
            (),
            lambda: rank(host, self._possible(host), self.catalog, self.workload).misses,
        )
        if not misses:
            return "there is no candidate"
        return f"nearest is {misses[0].variant.name}: {'; '.join(map(str, misses[0].reasons))}"

    def _possible(self, host: Capability) -> Iterable[Cell]:
        """Every cell that could be built for a machine."""
        python = max((cell.variant.python for cell in self.cells), default=max(self.catalog.pythons))
        return possible_cells(host, python, self.stack, self.catalog)

    def _plan(self, solution: Solution) -> CoverPlan:
        chosen = self._preferred(solution.chosen)
        given = self._given(chosen)
        cells = sorted((self.cells[index] for index in chosen), key=lambda cell: cell.variant.sort_key)
        best = slower = not_served = in_part = 0
        for group in self.groups:
            gpus = [given[at] for at in group.demands]
            lost = [index is None for index, _ in gpus]
            if any(lost):
                not_served += group.machines
                in_part += 0 if all(lost) else group.machines
            elif any(slow for _, slow in gpus):
                slower += group.machines
            else:
                best += group.machines
        return CoverPlan(
            variants=tuple(cell.name for cell in cells),
            at_their_best=best,
            slower=slower,
            not_served=not_served,
            in_part=in_part,
            cost=cost_of([cell.variant for cell in self.with_companions(cells)], self.catalog),
            proof=solution.proof,
        )

    def _given(self, chosen: Collection[int]) -> list[tuple[int | None, bool]]:
        """Return for each demand the candidate that serves it, and whether another one would be better."""
        given = []
        for demand in self.demands:
            index = _best_of(demand, chosen)
            given.append((index, index is not None and demand.costs[index] > min(demand.costs.values())))
        return given

    def _preferred(self, chosen: Collection[int]) -> tuple[int, ...]:
        """Without variants that no machine would use, and each of the others exchanged for the one that pick
        would rather give to its machines among those that serve them as well."""
        users: dict[int, list[Demand]] = {}
        for demand in self.demands:
            index = _best_of(demand, chosen)
            if index is not None:
                users.setdefault(index, []).append(demand)
        preferred = set(users)
        for index, own in users.items():
            preferred.remove(index)
            equal = [{i for i, cost in user.costs.items() if cost <= user.costs[index]} for user in own]
            rivals = set.intersection(*equal) - preferred
            preferred.add(min(rivals, key=lambda i: (sum(user.weight * user.place(i) for user in own), i)))
        return tuple(sorted(preferred))

    def with_companions(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells and those of other packages that the matrix has for them."""
        names = (cell.variant.of(package).name for cell in cells for package in self.packages)
        return [self.names[name] for name in names if name in self.names]


def _best_of(demand: Demand, chosen: Collection[int]) -> int | None:
    """The candidate that serves a demand at the lowest cost, and among equals the one that pick prefers."""
    able = [index for index in chosen if index in demand.costs]
    return min(able, key=lambda index: (demand.costs[index], demand.place(index)), default=None)


def _preference(cell: Cell) -> tuple[object, ...]:
    """Between candidates that serve a fleet equally: proved ones, the newest CUDA, the newest Python."""
    variant = cell.variant
    cuda = (-variant.cuda.major, -variant.cuda.minor) if variant.cuda else (0, 0)
    python = (-variant.python.major, -variant.python.minor)
    flavor = list(Flavor).index(variant.flavor)
    return bool(cell.warnings), flavor, cuda, python, variant.name
