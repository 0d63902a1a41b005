"""A comparison of two builds drawn: every ratio with its interval on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torchsmith.benchmark.compare import BuildComparison, MeasureRow
from torchsmith.webpage.draw import LETTER_WIDTH, Picture, clipped, line, write
from torchsmith.webpage.markup import Markup, tag

WIDTH, LEFT, RIGHT, TOP, STEP = 900, 250, 150, 96, 20
COLOURS = {"lower": "b", "higher": "e", "same": "f", "noisy": "c"}
MEANINGS = {"lower": "A takes less", "higher": "A takes more", "same": "same", "noisy": "too noisy to say"}
PLACES = {"start": "start", "cpu": "CPU", "cuda": "GPU"}
TICKS = (0.1, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 5, 10)
LABEL_PIXELS = 34  # between two ticks' labels
MIN_REACH = 0.06  # the scale shows at least this much on both sides of 1


def ratios_picture(comparison: BuildComparison) -> Picture:
    """A row for each measure, by where it was taken."""
    rows = [row for row in comparison.rows if row.ratio is not None]
    scale = _Scale(rows)
    height = TOP + STEP * (len(rows) + len({row.where for row in rows})) + 24
    parts = [*_head(comparison), *_axis(scale, height), *_rows(rows, scale)]
    return Picture("A over B: left of 1, A takes less", WIDTH, height, Markup("".join(parts)))


class _Scale:
    """Ratios to places, by their logarithm, so that twice and half are equally far from 1."""

    def __init__(self, rows: Sequence[MeasureRow]) -> None:
        ratios = [abs(math.log(row.ratio)) for row in rows if row.ratio]
        bounds = [bound for row in rows for bound in (row.low, row.high) if bound and math.isfinite(bound)]
        widest = max([*ratios, math.log(1 + MIN_REACH)])
        ends = max((abs(math.log(bound)) for bound in bounds), default=widest)
        self.reach = max(widest, min(ends, widest + math.log(1.5))) * 1.05

    def at(self, ratio: float) -> float:
        place = math.log(ratio) if ratio > 0 else -math.inf
        share = (max(-self.reach, min(self.reach, place)) / self.reach + 1) / 2
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def holds(self, ratio: float) -> bool:
        return abs(math.log(ratio)) <= self.reach


def _head(comparison: BuildComparison) -> Iterator[Markup]:
    yield write(16, 22, "A over B: left of 1, A takes less", "head")
    room = WIDTH - RIGHT - 16
    for index, side in enumerate((comparison.a, comparison.b)):
        cuda = side.cuda and f"CUDA {side.cuda}"
        facts = ", ".join(filter(None, (f"torch {side.version}", cuda, side.cpu_capability)))
        extra = " ".join(f"{name}={value}" for name, value in side.environment.items())
        about = f" ({facts}) {extra}".rstrip()
        path = clipped(side.path, room - len(f"{side.label}: {about}") * LETTER_WIDTH)
        yield write(16, 42 + 16 * index, f"{side.label}: {path}{about}", "dim")
    x = WIDTH - RIGHT + 14
    for index, (kind, meaning) in enumerate(MEANINGS.items()):
        yield tag("circle", cx=x, cy=18 + 15 * index, r=4, class_=COLOURS[kind])
        yield write(x + 10, 22 + 15 * index, meaning)


def _axis(scale: _Scale, height: int) -> Iterator[Markup]:
    labelled: dict[float, float] = {}
    for tick in sorted(TICKS, key=lambda tick: abs(math.log(tick))):  # 1 comes first
        x = scale.at(tick)
        if scale.holds(tick) and all(abs(x - other) >= LABEL_PIXELS for other in labelled.values()):
            labelled[tick] = x
    for tick, x in labelled.items():
        yield line(f"M{x} {TOP - 8}V{height - 16}", "lf thin" if tick == 1 else "axis")
        yield write(x, TOP - 12, f"{tick:.3g}", "dim middle")


def _rows(rows: Sequence[MeasureRow], scale: _Scale) -> Iterator[Markup]:
    y, where = TOP + 8, ""
    for row in rows:
        if row.where != where:
            where = row.where
            yield write(16, y + 4, PLACES[where], "head")
            y += STEP
        yield from _row(row, row.ratio or 0.0, scale, y)
        y += STEP


def _row(row: MeasureRow, ratio: float, scale: _Scale, y: int) -> Iterator[Markup]:
    colour = COLOURS.get(row.outcome, "f")
    low, high = scale.at(row.low or 0), scale.at(row.high or math.inf)
    yield write(LEFT - 12, y + 4, row.name, "end")
    yield line(f"M{low} {y}H{high}", f"l{colour}")
    yield tag("circle", cx=scale.at(ratio), cy=y, r=4, class_=colour)
    yield write(WIDTH - RIGHT + 14, y + 4, f"{ratio:.3f}")
    if row.low and row.high:
        yield write(WIDTH - RIGHT + 58, y + 4, f"{row.low:.3f} - {row.high:.3f}", "dim")
