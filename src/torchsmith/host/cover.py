"""Which variants to build for a fleet: the fewest that serve all, the best k, what one more buys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from torchsmith.catalog import Catalog, Estimate, Workload
from torchsmith.edge.problem import Problem, did_you_mean
from torchsmith.host.demand import Demand, demands
from torchsmith.host.fleet import Fleet
from torchsmith.host.rank import rank
from torchsmith.host.solve import Programme, Proof, Solution
from torchsmith.matrix import Cell, Flavor, Matrix, Variant

EstimateOf = Callable[[Variant], Estimate | None]


@dataclass(frozen=True, slots=True)
class Served:
    """A demand and the variant that serves it best among those chosen; None: nothing serves it."""

    demand: Demand
    cell: Cell | None
    cost: int = 0  # 0: as well as any candidate could

    @property
    def slower(self) -> bool:
        return self.cell is not None and self.cost > 0


@dataclass(frozen=True, slots=True)
class Bill:
    """What building costs, by the estimates; builds run one after the other."""

    hours: float = 0.0
    build_gb: float = 0.0  # the largest single build
    store_gb: float = 0.0
    unknown: tuple[str, ...] = ()  # variants that no estimate covers


@dataclass(frozen=True, slots=True)
class Plan:
    """A set of variants, whom it serves and how well, and what it costs."""

    cells: tuple[Cell, ...]
    served: tuple[Served, ...]
    bill: Bill
    proof: Proof

    def _machines(self, wanted: Callable[[Served], bool]) -> float:
        return sum(one.demand.machines for one in self.served if wanted(one))

    @property
    def best(self) -> float:
        return self._machines(lambda one: one.cell is not None and not one.slower)

    @property
    def slower(self) -> float:
        return self._machines(lambda one: one.slower)

    @property
    def unserved(self) -> float:
        return self._machines(lambda one: one.cell is None)


@dataclass(frozen=True, slots=True)
class Pins:
    """Variants that must be chosen and variants that must not, by name."""

    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


class Cover:
    """A fleet against the candidates of a matrix, ready to be asked."""

    def __init__(
        self,
        fleet: Fleet,
        cells: Iterable[Cell],
        catalog: Catalog,
        workload: Workload,
        estimate_of: EstimateOf,
        pins: Pins | None = None,
    ) -> None:
        pins = pins or Pins()
        everything = list(cells)
        self.packages = Matrix(tuple(everything)).packages(catalog)
        self.names = {cell.name: cell for cell in everything}
        self.cells = sorted(_of_one_package(everything), key=_preference)
        self.catalog, self.workload = catalog, workload
        self.estimate_of = estimate_of
        self.fleet = fleet
        self.demands = demands(fleet.kinds, self.cells, catalog, workload)
        must = self._indices(pins.must)
        banned = self._indices(pins.must_not)
        if must & banned:
            name = self.cells[min(must & banned)].name
            raise Problem(f"{name} must be chosen and must not be chosen")
        self.must = must
        self.programme = Programme(self.demands, set(range(len(self.cells))) - banned, must)

    def _indices(self, names: Collection[str]) -> frozenset[int]:
        places = {cell.name: index for index, cell in enumerate(self.cells)}
        for name in names:
            if name not in places:
                raise Problem(f"{name} is not among the candidates", hint=did_you_mean(name, places))
        return frozenset(places[name] for name in names)

    def fewest(self) -> Plan:
        """The fewest variants that serve every machine that any candidate serves."""
        return self._plan(self.programme.fewest())

    def best(self, count: int) -> Plan:
        """The best plan with at most so many variants."""
        if count < len(self.must):
            raise Problem(f"a plan of {count} cannot hold the {len(self.must)} variants that must be chosen")
        return self._plan(self.programme.best(count))

    def curve(self, most: int) -> tuple[Plan, ...]:
        """Best plans of growing size, until another variant would buy nothing."""
        plans: list[Plan] = []
        for count in range(max(1, len(self.must)), most + 1):
            plan = self.best(count)
            if plans and len(plan.cells) <= len(plans[-1].cells):
                break
            plans.append(plan)
            if not plan.slower and plan.unserved <= self.hopeless:
                break
        return tuple(plans)

    @property
    def hopeless(self) -> float:
        """Machines that no candidate serves."""
        return sum(demand.machines for demand in self.demands if not demand.costs)

    def why_slower(self, served: Served) -> str:
        """What a machine could have instead of what it has."""
        costs = served.demand.costs
        best = self.cells[min(costs, key=lambda index: (costs[index], index))]
        return f"has {served.cell.name if served.cell else 'nothing'}, {best.name} would be best"

    def why_unserved(self, demand: Demand) -> str:
        """What stands in the way of the nearest candidate, or that the plan left the machine out."""
        if demand.costs:
            index = min(demand.costs, key=lambda index: (demand.costs[index], index))
            return f"{self.cells[index].name} would serve it"
        candidates = [cell for cell in self.cells if cell.variant.cuda or not demand.host.sms]
        misses = rank(demand.host, candidates, self.catalog, self.workload).misses
        if not misses:
            return "there is no candidate"
        return f"nearest is {misses[0].variant.name}: {'; '.join(map(str, misses[0].reasons))}"

    def _plan(self, solution: Solution) -> Plan:
        chosen = self._needed(solution.chosen)
        served = tuple(self._serve(demand, chosen) for demand in self.demands)
        cells = tuple(sorted((self.cells[index] for index in chosen), key=lambda cell: cell.variant.sort_key))
        return Plan(cells, served, self._bill(cells), solution.proof)

    def _serve(self, demand: Demand, chosen: Sequence[int]) -> Served:
        able = [(demand.costs[index], index) for index in chosen if index in demand.costs]
        if not able:
            return Served(demand, None)
        cost, index = min(able)
        return Served(demand, self.cells[index], cost - min(demand.costs.values()))

    def _needed(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Without a variant that no machine would use, though the limit leaves room for it."""
        used = set(self.must)
        for demand in self.demands:
            able = [(demand.costs[index], index) for index in chosen if index in demand.costs]
            if able:
                used.add(min(able)[1])
        return tuple(sorted(used))

    def _bill(self, cells: Sequence[Cell]) -> Bill:
        hours = store = largest = 0.0
        unknown: list[str] = []
        for cell in self.with_companions(cells):
            estimate = self.estimate_of(cell.variant)
            if estimate is None:
                unknown.append(cell.name)
                continue
            hours += estimate.hours
            store += estimate.store_gb
            largest = max(largest, estimate.build_gb)
        return Bill(hours, largest, store, tuple(unknown))

    def with_companions(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells and the same ones of other packages, where the matrix has them."""
        names = (cell.variant.of(package).name for cell in cells for package in self.packages)
        return [self.names[name] for name in names if name in self.names]


def catalog_estimates(catalog: Catalog) -> EstimateOf:
    """Estimates from the catalog's table, by package and kind of target."""
    table = {(row.package, row.gpu): row for row in catalog.estimates.values()}
    return lambda variant: table.get((variant.package.name, variant.cuda is not None))


def _of_one_package(cells: Sequence[Cell]) -> list[Cell]:
    """A torch and its companions serve the same machines: torch's cells stand for all of them."""
    first = min((cell.variant.package for cell in cells), key=lambda one: one.order, default=None)
    return [cell for cell in cells if cell.variant.package == first]


def _preference(cell: Cell) -> tuple[object, ...]:
    """Between candidates that serve a fleet equally: proved ones, the newest CUDA, the newest Python."""
    variant = cell.variant
    cuda = (-variant.cuda.major, -variant.cuda.minor) if variant.cuda else (0, 0)
    python = (-variant.python.major, -variant.python.minor)
    flavor = list(Flavor).index(variant.flavor)
    return bool(cell.warnings), flavor, cuda, python, variant.name
