"""The integer programme behind `cover`: which variants to build, exact and proved, by HiGHS."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from torchsmith.core.problem import Failed
from torchsmith.host.demand import Demand

SLACK = 1e-3  # of the smallest weight: well above the solver's tolerance, well below any real difference
SURE = 1e-6  # a gap that is only rounding
OPTIONS = {"output_flag": False, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "threads": 1}


@dataclass(frozen=True, slots=True)
class Proof:
    """How sure an answer is by HiGHS: the gap that it leaves (0: nothing better exists)."""

    gap: float
    optimal: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Chosen candidates by their places, and the proof."""

    chosen: tuple[int, ...]
    proof: Proof


class CoverModel:
    """Choose candidates x; z says for each demand whether it is served at a cost or better.

        z[demand, cost] <= sum of x over the candidates that serve the demand at that cost or better

    Between answers that serve equal weight, the cost decides; both are solved to proved optimality.
    """

    def __init__(self, demands: Sequence[Demand], candidates: int) -> None:
        highspy, np = _highs()
        self.candidates = candidates
        self.served: list[float] = []  # the first objective: weight that is served at all
        self.quality: list[float] = []  # the second: and how well
        self.last: list[bool] = []  # whether a z says that a demand is served at all
        rows = list(self._tiers(_rows(demands)))
        x, z, infinite = candidates, len(rows), highspy.kHighsInf
        self.count_row, self.served_row = z, z + 1
        rows.append(dict.fromkeys(range(x), 1.0))
        rows.append({x + at: weight for at, weight in enumerate(self.served) if weight})
        self.highs: Any = highspy.Highs()
        for option, value in OPTIONS.items():
            self.highs.setOptionValue(option, value)
        self.highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.highs.addVars(x + z, np.zeros(x + z), np.ones(x + z))
        for column in range(x):
            self.highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        lower, upper = [-infinite] * z + [0.0, 0.0], [0.0] * z + [float(x), infinite]
        starts = np.array(list(accumulate(map(len, rows), initial=0)), dtype=np.int32)
        indices = np.array(list(chain(*rows)), dtype=np.int32)
        values = np.array([value for row in rows for value in row.values()])
        self.highs.addRows(
            len(rows), np.array(lower), np.array(upper), len(indices), starts[:-1], indices, values
        )

    def _tiers(self, rows: dict[tuple[tuple[int, int], ...], float]) -> Iterator[dict[int, float]]:
        """For each z its row, by the factors of its columns."""
        worst = 1 + max((cost for row in rows for _, cost in row), default=0)
        for row, weight in rows.items():
            tiers = sorted({cost for _, cost in row})
            for cost, worse in zip(tiers, [*tiers[1:], worst], strict=True):
                z = self.candidates + len(self.served)
                yield {z: 1.0} | {column: -1.0 for column, own in row if own <= cost}
                self.last.append(cost == tiers[-1])
                self.served.append(weight if cost == tiers[-1] else 0.0)
                self.quality.append(weight * (worse - cost))

    def fewest(self) -> Solution:
        """As few candidates as serve every demand that any candidate serves, and among those the best."""
        start = time.monotonic()
        self._serve_all(True)
        self._limit(self.candidates, 0.0)
        self._maximise(-1.0, [0.0] * len(self.served))
        self._limit(len(self._solve(start).chosen), 0.0)
        self._maximise(0.0, self.quality)
        return self._solve(start)

    def best(self, count: int) -> Solution:
        """At most `count` candidates that serve the most weight, and among those the best."""
        start = time.monotonic()
        self._serve_all(False)
        self._limit(count, 0.0)
        self._maximise(0.0, self.served)
        self._solve(start)
        self._limit(count, self.highs.getInfo().objective_function_value)
        self._maximise(0.0, self.quality)
        return self._solve(start)

    def _serve_all(self, required: bool) -> None:
        for at, last in enumerate(self.last):
            self.highs.changeColBounds(self.candidates + at, float(required and last), 1.0)

    def _limit(self, count: int, served: float) -> None:
        self.highs.changeRowBounds(self.count_row, 0.0, float(count))
        self.least = served

    def _maximise(self, x: float, z: list[float]) -> None:
        """The sum of all z by these factors, and of each candidate that is chosen by `x`."""
        _, np = _highs()
        costs = np.array([x] * self.candidates + z)
        self.highs.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)

    def _solve(self, start: float) -> Solution:
        slack = SLACK * min(filter(None, self.served), default=0.0)
        self.highs.changeRowBounds(self.served_row, self.least - slack, _highs()[0].kHighsInf)
        self.highs.run()
        status: str = self.highs.modelStatusToString(self.highs.getModelStatus())
        if status != "Optimal":
            raise Failed(f"the solver ended with {status.lower()}", hint="report this with the inventory")
        values = self.highs.getSolution().col_value
        chosen = tuple(index for index in range(self.candidates) if values[index] > 0.5)
        gap = self.highs.getInfo().mip_gap
        return Solution(chosen, Proof(gap, gap <= SURE, time.monotonic() - start))


def _highs() -> tuple[Any, Any]:
    """The solver and numpy, imported only if something is solved."""
    import highspy
    import numpy

    return highspy, numpy


def _rows(demands: Sequence[Demand]) -> dict[tuple[tuple[int, int], ...], float]:
    """The candidates that serve a demand, with their costs, and its weight; equal demands are one."""
    rows: dict[tuple[tuple[int, int], ...], float] = {}
    for demand in demands:
        if row := tuple(sorted(demand.costs.items())):
            rows[row] = rows.get(row, 0.0) + demand.weight
    return rows
