"""Which variants to build for a fleet: the fewest that serve all, the best k, what one more buys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from torchsmith.catalog import Catalog, Workload
from torchsmith.core.problem import Conflict, NotKnown, TooLarge, did_you_mean
from torchsmith.host.bill import Bill, bill
from torchsmith.host.demand import Demand, HostGroup, demands
from torchsmith.host.fleet import Fleet
from torchsmith.host.pick import (
    PickedVariants,
    cells_to_make,
    nearest_misses,
    possible_cells,
    stack_of,
    why_idle,
)
from torchsmith.host.rank import Ranking, rank
from torchsmith.host.resolve import Capability
from torchsmith.host.solve import CoverModel, Proof, Solution
from torchsmith.matrix import Cell, Flavor, Matrix


@dataclass(frozen=True, slots=True)
class Served:
    """A demand and the variant that serves it best among those chosen; None: nothing serves it."""

    demand: Demand
    cell: Cell | None
    cost: int = 0  # 0: as well as any candidate could
    assumed: tuple[str, ...] = ()  # what must be true for it that the inventory does not say

    @property
    def slower(self) -> bool:
        return self.cell is not None and self.cost > 0


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """A set of variants, whom it serves and how well, and what it costs."""

    cells: tuple[Cell, ...]
    served: tuple[Served, ...]
    bill: Bill
    proof: Proof
    groups: tuple[HostGroup, ...]

    def machines(self, wanted: Callable[[list[Served]], bool]) -> int:
        """How many machines there are, by what their GPUs get."""
        return sum(
            group.machines for group in self.groups if wanted([self.served[at] for at in group.demands])
        )

    @property
    def best(self) -> int:
        return self.machines(lambda gpus: all(gpu.cell is not None and not gpu.slower for gpu in gpus))

    @property
    def slower(self) -> int:
        return self.machines(lambda gpus: all(gpu.cell for gpu in gpus) and any(gpu.slower for gpu in gpus))

    @property
    def unserved(self) -> int:
        """Machines with a GPU that nothing chosen uses, or that nothing chosen runs on."""
        return self.machines(lambda gpus: any(gpu.cell is None for gpu in gpus))

    @property
    def in_part(self) -> int:
        """Those of the unserved that have another GPU which is served."""
        return self.machines(lambda gpus: len({gpu.cell is None for gpu in gpus}) == 2)


class Cover:
    """A fleet against the candidates of a matrix, ready to be asked.

    `must` and `must_not` name variants that must be chosen, and those that must not.
    """

    def __init__(
        self,
        fleet: Fleet,
        cells: Iterable[Cell],
        catalog: Catalog,
        workload: Workload,
        must: Sequence[str] = (),
        must_not: Sequence[str] = (),
        packages: Sequence[str] = (),
    ) -> None:
        everything = list(cells)
        self.stack = stack = stack_of(packages, everything, catalog)
        wanted = {stack.root, *stack.siblings(catalog)}
        self.packages = [
            package for package in Matrix(tuple(everything)).packages(catalog) if package in wanted
        ]
        self.names = {cell.name: cell for cell in everything}
        # A torch and its companions serve the same machines: one package's cells stand for all of them.
        self.cells = sorted(stack.cells(everything), key=_preference)
        self.catalog, self.workload = catalog, workload
        self.demands, self.groups = demands(fleet.kinds, self.cells, catalog, workload)
        self.must = self._indices(must)
        banned = self._indices(must_not)
        if self.must & banned:
            name = self.cells[min(self.must & banned)].name
            raise Conflict(f"{name} must be chosen and must not be chosen")
        self.allowed = frozenset(range(len(self.cells))) - banned
        self.programme = CoverModel(self.demands, self.allowed, self.must)

    def _indices(self, names: Collection[str]) -> frozenset[int]:
        places = {cell.name: index for index, cell in enumerate(self.cells)}
        for name in names:
            if name not in places:
                raise NotKnown(f"{name} is not among the candidates", hint=did_you_mean(name, places))
        return frozenset(places[name] for name in names)

    def fewest(self) -> FleetPlan:
        """The fewest variants that serve every machine that any candidate serves."""
        return self._plan(self.programme.fewest())

    def best(self, count: int) -> FleetPlan:
        """The best plan with at most so many variants."""
        if count < len(self.must):
            raise TooLarge(f"a plan of {count} cannot hold the {len(self.must)} variants that must be chosen")
        return self._plan(self.programme.best(count))

    def curve(self, limit: int) -> tuple[FleetPlan, ...]:
        """Best plans of growing size, until another variant would buy nothing."""
        plans: list[FleetPlan] = []
        for count in range(max(1, len(self.must)), limit + 1):
            plan = self.best(count)
            if plans and len(plan.cells) <= len(plans[-1].cells):
                break
            plans.append(plan)
            if not plan.slower and plan.unserved <= self.hopeless:
                break
        return tuple(plans)

    @property
    def hopeless(self) -> int:
        """Machines that no candidate serves, or not on all of their GPUs."""
        lost = {at for at, demand in enumerate(self.demands) if not demand.costs}
        return sum(group.machines for group in self.groups if lost & set(group.demands))

    def why_slower(self, served: Served) -> str:
        """What a machine could have instead of what it has."""
        costs = served.demand.costs
        best = self.cells[min(costs, key=lambda index: costs[index])]
        return f"has {served.cell.name if served.cell else 'nothing'}, {best.name} would be best"

    def to_make(self, demand: Demand) -> Cell | None:
        """The cell that would serve what no candidate serves: the same that pick would make."""
        if demand.costs:
            return None
        cells = self._possible(demand.host)
        fits = rank(demand.host, cells, self.catalog, self.workload, able=True).fits
        makeable = cells_to_make(demand.host, Ranking(), PickedVariants(), lambda: fits)
        return next((fit.cell for fit in makeable if fit.used or not demand.host.archs), None)

    def why_unserved(self, demand: Demand) -> str:
        """What stands in the way of the nearest candidate, or that the plan left the machine out."""
        if demand.costs:
            index = min(demand.costs, key=lambda index: demand.costs[index])
            return f"{self.cells[index].name} would serve it"
        if cell := self.to_make(demand):
            return f"{cell.name} would serve it and is not among the candidates"
        if retired := [sm for sm in demand.host.sms or () if sm in self.catalog.retired]:
            return self.catalog.retired[retired[0]].ended
        if demand.host.others and not demand.host.sms and not demand.host.unknown_gpus:
            return why_idle(demand.host.others, demand.host, self.catalog)
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

    def _plan(self, solution: Solution) -> FleetPlan:
        chosen = self._preferred(solution.chosen)
        served = tuple(self._serve(demand, chosen) for demand in self.demands)
        cells = tuple(sorted((self.cells[index] for index in chosen), key=lambda cell: cell.variant.sort_key))
        return FleetPlan(
            cells,
            served,
            bill([cell.variant for cell in self.with_companions(cells)], self.catalog),
            solution.proof,
            self.groups,
        )

    def _serve(self, demand: Demand, chosen: Collection[int]) -> Served:
        index = _best_of(demand, chosen)
        if index is None:
            return Served(demand, None)
        cost = demand.costs[index] - min(demand.costs.values())
        assumed = tuple(reason.text for reason in demand.fits[index].provided)
        return Served(demand, self.cells[index], cost, assumed)

    def _preferred(self, chosen: Collection[int]) -> tuple[int, ...]:
        """Without variants that no machine would use, and each of the others exchanged for the one that pick
        would rather give to its machines among those that serve them as well."""
        users: dict[int, list[Demand]] = {index: [] for index in self.must}
        for demand in self.demands:
            index = _best_of(demand, chosen)
            if index is not None:
                users.setdefault(index, []).append(demand)
        preferred = set(users)
        for index, own in users.items():
            if index not in self.must:
                preferred.remove(index)
                equal = [{i for i, cost in user.costs.items() if cost <= user.costs[index]} for user in own]
                rivals = set.intersection(*equal) & self.allowed - preferred
                preferred.add(
                    min(rivals, key=lambda i: (sum(user.weight * user.place(i) for user in own), i))
                )
        return tuple(sorted(preferred))

    def with_companions(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells and the same ones of other packages, where the matrix has them."""
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
