"""A comparison drawn: every ratio with its interval on one scale, as an SVG without anything to load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from torchsmith.benchmark.compare import BuildComparison, MeasureRow

WIDTH, LEFT, RIGHT, TOP, STEP = 900, 250, 150, 96, 20
COLOURS = {"lower": "#1a7f37", "higher": "#cf222e", "same": "#57606a", "noisy": "#bf8700"}
WORDS = {"lower": "A takes less", "higher": "A takes more", "same": "same", "noisy": "too noisy to say"}
PLACES = {"start": "start", "cpu": "CPU", "cuda": "GPU"}
TICKS = (0.1, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 5, 10)
APART = 34  # between two ticks' labels
LONGEST = 60  # characters of a path beside the legend
NEAREST = 0.06  # the scale shows at least this much on both sides of 1


def forest(comparison: BuildComparison) -> str:
    """The drawing."""
    rows = [row for row in comparison.rows if row.ratio is not None]
    scale = _Scale(rows)
    height = TOP + STEP * (len(rows) + len({row.where for row in rows})) + 24
    body = [*_head(comparison), *_axis(scale, height), *_rows(rows, scale)]
    text = "\n".join(body)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"
 width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12" fill="#1f2328">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
{text}
</svg>
"""


class _Scale:
    """Ratios to places, by their logarithm, so that twice and half are equally far from 1."""

    def __init__(self, rows: Sequence[MeasureRow]) -> None:
        shown = [abs(math.log(one)) for row in rows for one in (row.ratio,) if one]
        ends = [
            abs(math.log(one)) for row in rows for one in (row.low, row.high) if one and math.isfinite(one)
        ]
        widest = max([*shown, math.log(1 + NEAREST)])
        self.reach = max(widest, min(max(ends, default=widest), widest + math.log(1.5))) * 1.05

    def at(self, ratio: float) -> float:
        place = math.log(ratio) if ratio > 0 else -math.inf
        share = (max(-self.reach, min(self.reach, place)) / self.reach + 1) / 2
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def holds(self, ratio: float) -> bool:
        return abs(math.log(ratio)) <= self.reach


def _text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(words)}</text>'


def _head(comparison: BuildComparison) -> Iterator[str]:
    yield _text(16, 22, "A over B: left of 1, A takes less", 'font-size="15" font-weight="600"')
    for index, side in enumerate((comparison.a, comparison.b)):
        words = ", ".join(
            filter(None, (f"torch {side.version}", side.cuda and f"CUDA {side.cuda}", side.cpu_capability))
        )
        extra = " ".join(f"{name}={value}" for name, value in side.environment.items())
        path = side.path if len(side.path) <= LONGEST else f"…{side.path[1 - LONGEST :]}"
        line = f"{side.label}: {path} ({words}) {extra}".strip()
        yield _text(16, 42 + 16 * index, line, 'fill="#57606a"')
    x = WIDTH - RIGHT + 14
    for index, (kind, words) in enumerate(WORDS.items()):
        yield f'<circle cx="{x}" cy="{18 + 15 * index}" r="4" fill="{COLOURS[kind]}"/>'
        yield _text(x + 10, 22 + 15 * index, words, 'font-size="11"')


def _axis(scale: _Scale, height: int) -> Iterator[str]:
    labelled = {1.0: scale.at(1.0)}
    for tick in sorted(TICKS, key=lambda one: abs(math.log(one))):
        x = scale.at(tick)
        if scale.holds(tick) and all(
            abs(x - other) >= APART for one, other in labelled.items() if one != tick
        ):
            labelled[tick] = x
    for tick, x in labelled.items():
        strong = tick == 1.0
        line = 'stroke="#1f2328"' if strong else 'stroke="#d0d7de"'
        yield f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 16}" {line}/>'
        yield _text(x, TOP - 12, f"{tick:.3g}", 'text-anchor="middle" font-size="11"')


def _rows(rows: Sequence[MeasureRow], scale: _Scale) -> Iterator[str]:
    y, where = TOP + 8.0, ""
    for row in rows:
        if row.where != where:
            where = row.where
            yield _text(16, y + 4, PLACES[where], 'font-weight="600"')
            y += STEP
        yield from _row(row, scale, y)
        y += STEP


def _row(row: MeasureRow, scale: _Scale, y: float) -> Iterator[str]:
    assert row.ratio is not None
    colour = COLOURS.get(row.outcome, "#57606a")
    low, high = scale.at(row.low or 0), scale.at(row.high or math.inf)
    x = scale.at(row.ratio)
    yield _text(LEFT - 12, y + 4, row.name, 'text-anchor="end"')
    yield f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    yield f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"/>'
    weight = ' font-weight="600"' if row.outcome in ("lower", "higher") else ""
    yield _text(WIDTH - RIGHT + 14, y + 4, f"{row.ratio:.3f}", f'fill="{colour}"{weight}')
    note = f"{row.low:.3f} - {row.high:.3f}" if row.low and row.high else ""
    yield _text(WIDTH - RIGHT + 58, y + 4, note, 'fill="#57606a" font-size="11"')
