"""Pictures of a terminal, drawn from what torchsmith really prints; `make pages` keeps them fresh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

PICTURES = {
    "pick": ["pick", "Ryzen", "7950X", "RTX", "4090", "--driver", "570"],
    "list": ["list", "cuda13_0"],
    "show": ["show", "pytorch-python313-cuda12_8-sm103-avx2"],
}
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "36": "#56b6c2"}
WIDE, HIGH, EDGE = 8.4, 19, 16
COLUMNS = 100
# Costs are those of the machine that builds: the same in every picture, wherever it is drawn.
START = (
    "import os; os.sched_getaffinity = lambda _: range(16)\n"
    "from torchsmith.core import cores; cores.usable_memory_gb = lambda: 128.0\n"
    "from torchsmith import __main__; __main__.entry()"
)
CODE = re.compile(r"\x1b\[([\d;]*)m")


def pictures() -> dict[str, str]:
    """Each picture by its path."""
    return {f"docs/pictures/{name}.svg": draw(words) for name, words in PICTURES.items()}


def draw(words: list[str]) -> str:
    """A run as an SVG."""
    shown = " ".join(f"'{word}'" if " " in word else word for word in words)
    lines = [f"\x1b[2m$\x1b[0m \x1b[1mtorchsmith {shown}\x1b[0m", *_run(words).splitlines()]
    lines = [part for line in lines for part in _folded(line)]
    width, height = COLUMNS * WIDE + 2 * EDGE, len(lines) * HIGH + 2 * EDGE + 14
    body = "\n".join(_line(line, EDGE + 28 + at * HIGH) for at, line in enumerate(lines))
    dots = "".join(
        f'<circle cx="{EDGE + 6 + at * 18}" cy="16" r="5" fill="{colour}"/>'
        for at, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n'
        f"<title>torchsmith {escape(shown)}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#21252b"/>{dots}\n'
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" '
        f'fill="#d7dae0">\n{body}\n</g>\n</svg>\n'
    )


def _run(words: list[str]) -> str:
    """What a terminal would show, in an empty folder of a machine that has Nix."""
    with tempfile.TemporaryDirectory() as folder:
        nix = Path(folder, "bin", "nix-build")
        nix.parent.mkdir()
        nix.touch(0o755)
        empty = Path(folder, "here")
        empty.mkdir()
        env = {"PATH": str(nix.parent), "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "HOME": folder}
        argv = [sys.executable, "-c", START, *words]
        keep = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        done = subprocess.run(argv, cwd=empty, env=env | keep, capture_output=True, text=True, check=False)
        return done.stdout


def _folded(line: str) -> list[str]:
    """A long command goes on in the next line, as in a terminal."""
    lines, column, style, current = [], 0, "", ""
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        if CODE.fullmatch(part):
            style = part if part != "\x1b[0m" else ""
            current += part
            continue
        while column + len(part) > COLUMNS:
            room = COLUMNS - column
            lines.append(f"{current}{part[:room]}\x1b[0m")
            part, column, current = part[room:], 0, style
        current, column = current + part, column + len(part)
    return [*lines, current]


def _line(line: str, y: float) -> str:
    spans, column, style = [], 0, ""
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        code = CODE.fullmatch(part)
        if code:
            style = "" if code[1] in ("", "0") else code[1]
        else:
            # Browsers drop spaces at the edges of a span: a span starts where its first letter does.
            at, text = column + len(part) - len(part.lstrip()), part.strip().replace(" ", "\u00a0")
            place = f'x="{EDGE + at * WIDE:.1f}" textLength="{len(text) * WIDE:.1f}"'
            spans += [f"<tspan {place}{_look(style)}>{escape(text)}</tspan>"] if text else []
            column += len(part)
    return f'<text y="{y:.0f}">{"".join(spans)}</text>'


def _look(style: str) -> str:
    codes = style.split(";")
    fill = next((COLOURS[code] for code in codes if code in COLOURS), "")
    words = [f' fill="{fill}"'] if fill else []
    words += [' font-weight="bold"'] if "1" in codes else []
    words += [' opacity="0.65"'] if "2" in codes else []
    return "".join(words)
