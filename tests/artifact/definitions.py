"""Operators of torchvision and torchaudio by their definitions: where the numbers of the probe come from.

`python -m tests.artifact.definitions` writes them anew.
"""

from __future__ import annotations

import json
import math
import operator
import random
from typing import Any

from torchsmith.artifact.tables import DATA

Grid = list[list[float]]
NUMBERS = DATA / "operators.json"


def aligned(channel: Grid, box: list[float]) -> Grid:
    """RoIAlign by its definition: five by five bins, each the mean of four interpolated points."""
    left, top = box[0] - 0.5, box[1] - 0.5
    width, height = (box[2] - box[0]) / 5, (box[3] - box[1]) / 5
    quarters = (0.25, 0.75)

    def bin_at(row: int, column: int) -> float:
        points = [(top + (row + y) * height, left + (column + x) * width) for y in quarters for x in quarters]
        return sum(interpolated(channel, *point) for point in points) / 4

    return [[bin_at(row, column) for column in range(5)] for row in range(5)]


def interpolated(channel: Grid, y: float, x: float) -> float:
    """The value between four pixels; zero outside."""
    most = len(channel) - 1
    if not -1 <= y <= most + 1 or not -1 <= x <= most + 1:
        return 0.0
    y, x = min(max(y, 0.0), most), min(max(x, 0.0), most)
    top, left = int(y), int(x)
    rows = ((top, 1 - y + top), (min(top + 1, most), y - top))
    columns = ((left, 1 - x + left), (min(left + 1, most), x - left))
    return sum(channel[r][c] * share * part for r, share in rows for c, part in columns)


def kept_boxes(boxes: Grid, scores: list[float], limit: float) -> list[int]:
    """Non-maximum suppression by its definition: the best box first, then what overlaps no kept one."""
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda index: -scores[index]):
        if all(overlap(boxes[index], boxes[other]) <= limit for other in kept):
            kept.append(index)
    return kept


def overlap(one: list[float], two: list[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    common = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, two)]
    return common / (sum(areas) - common)


def halved(wave: list[float]) -> list[float]:
    """Every second sample after a low pass: a sinc of six zeros under a Hann window, at 0.99 of the rate."""
    reach, cutoff, kernel = 13, 0.99, []
    for step in range(-reach, reach + 2):
        place = min(max(step / 2 * cutoff, -6.0), 6.0)
        sinc = math.sin(math.pi * place) / (math.pi * place) if place else 1.0
        kernel.append(sinc * math.cos(math.pi * place / 12) ** 2 * cutoff / 2)
    padded = [0.0] * reach + wave + [0.0] * (reach + 2)
    starts = range(0, len(wave), 2)
    return [math.fsum(map(operator.mul, kernel, padded[start:])) for start in starts]


def known_numbers() -> dict[str, Any]:
    """Inputs in eighths, which every floating-point type holds exactly, and what operators make of them."""
    source = random.Random(0)

    def eighths(least: int, most: int) -> float:
        return source.randint(least, most) / 8

    corners = [(eighths(0, 320), eighths(0, 320)) for _ in range(100)]
    boxes = [[left, top, left + eighths(32, 200), top + eighths(32, 200)] for left, top in corners]
    scores = [order / 128 for order in source.sample(range(100), 100)]
    image = [[[eighths(-16, 16) for _ in range(36)] for _ in range(36)] for _ in range(2)]
    parts = [[edge / 2 for edge in box] for box in boxes[:6]]
    wave = [eighths(-8, 8) for _ in range(400)]
    return {
        "nms": {"boxes": boxes, "scores": scores, "limit": 0.5, "kept": kept_boxes(boxes, scores, 0.5)},
        "roi_align": {
            "image": image,
            "boxes": parts,
            "result": [[aligned(channel, part) for channel in image] for part in parts],
        },
        "resample": {"wave": wave, "result": halved(wave)},
    }


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps(known_numbers(), separators=(",", ":")) + "\n")
