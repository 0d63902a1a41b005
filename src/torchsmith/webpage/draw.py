"""Pictures of the page as plain SVG, in light and dark."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchsmith.webpage.markup import Markup, tag

COLOURS = ("a", "b", "c", "d4", "e", "f")
LETTER_WIDTH = 7.0  # pixels: the width of a letter at 12 pixels, rather too much
BOLD_WIDTH = 8.0
ROW = 22  # pixels: the height of a row
WIDTH, NARROW = 760, 350  # of pictures, and on a phone
Place = Callable[[float, float], tuple[float, float]]  # the place of a point of an axis in a picture


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing: its title, its size, and its elements."""

    title: str
    width: int
    height: int
    content: Markup

    def inline(self) -> Markup:
        """As a part of the page, which has the style."""
        box = f"0 0 {self.width} {self.height}"
        about: dict[str, str | int] = {"width": self.width, "height": self.height, "viewBox": box}
        return tag("svg", tag("title", self.title), self.content, class_="d picture", role="img", **about)


def clipped(text: str, pixels: float, letter: float = LETTER_WIDTH) -> str:
    """Return a text that fits: of one that is too long as many whole parts as there is room for."""
    limit = max(1, int(pixels / letter))
    if len(text) <= limit:
        return text
    parts = re.match(r"(.*)[ ,-]", text[:limit])
    return f"{parts[1].rstrip(' ,-') if parts else text[: limit - 1]}…"


def short(name: str) -> str:
    """A build's name without what nearly all have in common: pytorch210-sm90-avx2."""
    return re.sub(r"^python3\.\d+-|-python\d+|-cuda\d+_\d+|-\d+(?:\.\d+)+$", "", name)


def write(x: float, y: float, text: str, class_: str = "") -> Markup:
    return tag("text", text, x=x, y=y, class_=class_ or None)


def box(x: float, y: float, width: float, height: float, class_: str, about: str = "") -> Markup:
    title = tag("title", about) if about else None
    return tag("rect", title, x=x, y=y, width=max(width, 1.0), height=height, rx=2, class_=class_)


def line(points: str, class_: str) -> Markup:
    return tag("path", d=points, class_=class_)


@dataclass(frozen=True, slots=True)
class BarRow:
    """A bar: its label, its length, what to write behind it; its rest is hollow."""

    label: str
    value: float
    caption: str
    colour: str = "a"
    rest: float = 0.0


def bars(title: str, rows: Sequence[BarRow | str], width: int = WIDTH) -> Picture:
    """Horizontal bars, each with its caption, and headings; what is hollow differs by its form and not by
    colour alone. In a narrow picture a label is above its bar."""
    own = [row for row in rows if isinstance(row, BarRow)]
    above = width <= NARROW
    label = 0 if above else min(280.0, max((len(row.label) for row in own), default=0) * LETTER_WIDTH + 12)
    caption = max((len(row.caption) for row in own), default=0) * LETTER_WIDTH + 12
    room = max(60.0, width - label - caption)
    longest = max((row.value + row.rest for row in own), default=0) or 1
    parts: list[Markup] = []
    y = 2
    for row in rows:
        if isinstance(row, str):
            y += 8 if parts else 0
            parts.append(write(0, y + 16, row, "head"))
            y += ROW + 6
            continue
        if above:
            parts.append(write(0, y + 14, clipped(row.label, width)))
            y += ROW - 6
        else:
            parts.append(write(label - 6, y + 14, clipped(row.label, label - 12), "end"))
        length, rest = room * row.value / longest, room * row.rest / longest
        if row.value:
            parts.append(box(label, y + 3, length, ROW - 8, row.colour))
        if row.rest:
            parts.append(box(label + length, y + 3, rest, ROW - 8, "lf hollow"))
        parts.append(write(label + length + rest + 6, y + 14, row.caption, "dim"))
        y += ROW
    return Picture(title, width, y + 4, Markup("".join(parts)))


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job on a lane, in seconds."""

    lane: str
    start: float
    end: float
    name: str
    colour: str = "a"
    sign: str = ""


def ticks(highest: float, count: int = 6) -> list[float]:
    """Round numbers from 0 to `highest`."""
    if highest <= 0:
        return [0.0]
    raw = highest / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [step * number for number in range(int(highest / step) + 1)]


def _time_ticks(seconds: float) -> tuple[list[float], float, str]:
    size, unit = (3600.0, "h") if seconds >= 5400 else (60.0, "min") if seconds >= 120 else (1.0, "s")
    return [value * size for value in ticks(seconds / size)], size, unit


def gantt(title: str, spans: Sequence[DrawnJob], width: int = WIDTH, caption: str = "") -> Picture:
    """Jobs over time, a lane for each builder; a long lane is packed into as many rows as overlap. Jobs whose
    bars have no room for a name are named below."""
    rows = _rows(spans)
    label = min(220.0, max((len(lane) for lane, _ in rows), default=0) * LETTER_WIDTH + 14)
    end = max((span.end for span in spans), default=0.0) or 1.0
    room = width - label - 16
    parts: list[Markup] = []
    top = 26 if caption else 8
    bottom = top + len(rows) * ROW
    if caption:
        parts.append(write(0, 14, caption, "dim"))
    marks, size, unit = _time_ticks(end)
    for mark in marks:
        x = label + room * mark / end
        parts.append(line(f"M{x:.1f} {top}V{bottom}", "axis"))
        parts.append(write(x, bottom + 16, f"{mark / size:g} {unit}", "dim middle"))
    before, unnamed = "", list[str]()
    for number, (lane, own) in enumerate(rows):
        y = top + number * ROW
        if lane != before:
            parts.append(write(label - 8, y + 15, clipped(lane, label), "end"))
        before = lane
        for span in own:
            x, length = label + room * span.start / end, room * (span.end - span.start) / end
            parts.append(box(x, y + 3, length, ROW - 6, span.colour, f"{span.name} ({span.sign or 'done'})"))
            name = f"{span.sign} {short(span.name)}".strip()
            if length > 6 * BOLD_WIDTH:
                parts.append(write(x + 4, y + 15, clipped(name, length - 8, BOLD_WIDTH), "on"))
            else:
                unnamed.append(name)
    if unnamed:
        parts.append(write(0, bottom + 34, clipped(f"short: {', '.join(unnamed)}", width), "dim"))
    return Picture(title, width, int(bottom + (42 if unnamed else 24)), Markup("".join(parts)))


def _rows(spans: Sequence[DrawnJob]) -> list[tuple[str, list[DrawnJob]]]:
    lanes: dict[str, list[list[DrawnJob]]] = {}
    for span in sorted(spans, key=lambda span: span.start):
        own = lanes.setdefault(span.lane, [])
        free = next((row for row in own if row[-1].end <= span.start + 1e-9), None)
        if free is None:
            own.append([span])
        else:
            free.append(span)
    return [(lane, row) for lane, own in lanes.items() for row in own]


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """Something below something else."""

    user: str
    build: str
    kind: str


MOST_DRAWN = 400  # recipes, and builds, of a picture of sharing


def sharing(title: str, links: Sequence[DrawnLink], width: int = WIDTH) -> Picture:
    """Recipes at the left, the long builds below them at the right, and who needs what."""
    drawn = links[: MOST_DRAWN * 4]
    builds = list(dict.fromkeys((link.kind, link.build) for link in drawn))[:MOST_DRAWN]
    users = list(dict.fromkeys(link.user for link in drawn))[:MOST_DRAWN]
    kinds = list(dict.fromkeys(kind for kind, _ in builds))
    builds.sort(key=lambda build: kinds.index(build[0]))  # one kind beside the other
    step_left, step_right = ROW - 4, max(ROW - 4.0, (ROW - 4) * len(users) / max(len(builds), 1))
    name = short if width <= NARROW else str
    left = min(width * 0.42, max((len(name(user)) for user in users), default=0) * LETTER_WIDTH + 12)
    right = width - min(width * 0.42, max((len(build) for _, build in builds), default=0) * LETTER_WIDTH + 40)
    ys = {user: number * step_left + 14 for number, user in enumerate(users)}
    zs = {build: number * step_right + 14 for number, build in enumerate(builds)}
    parts: list[Markup] = []
    for link in drawn:
        key = (link.kind, link.build)
        if link.user in ys and key in zs:
            y, z, middle = ys[link.user] - 4, zs[key] - 4, (left + right) / 2
            colour = COLOURS[kinds.index(link.kind) % len(COLOURS)]
            bend = f"C{middle:.0f} {y} {middle:.0f} {z:.0f} {right - 4:.0f} {z:.0f}"
            parts.append(line(f"M{left + 4:.0f} {y}{bend}", f"l{colour} thin"))
    counts = Counter((link.kind, link.build) for link in links)
    parts += [write(left - 2, y, clipped(name(user), left), "end") for user, y in ys.items()]
    for (kind, build), z in zs.items():
        colour = COLOURS[kinds.index(kind) % len(COLOURS)]
        parts.append(box(right - 4, z - 10, 8, 12, colour))
        text = f"{short(build)} ×{counts[kind, build]}" if counts[kind, build] > 1 else short(build)
        parts.append(write(right + 10, z, clipped(text, width - right - 12)))
    height = max([*ys.values(), *zs.values(), 0]) + 14
    return Picture(title, width, int(height), Markup("".join(parts)))
