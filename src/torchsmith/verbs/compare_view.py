"""Two builds side by side, for people: what `compare` prints."""

from __future__ import annotations

from torchsmith.artifact.check import megabytes
from torchsmith.benchmark.compare import BuildComparison, BuildSide, MeasureRow
from torchsmith.benchmark.statistics import LEVEL, RatioOutcome
from torchsmith.cli.console import Painted, table, write

WORDS: dict[RatioOutcome, tuple[str, str]] = {
    "lower": ("less", "green"),
    "higher": ("more", "red"),
    "same": ("same", "dim"),
    "noisy": ("noise", "yellow"),
    "wrong": ("wrong", "bold red"),
    "failed": ("failed", "bold red"),
}
FIGURES = ("A", "B", "A/B", "within", "spread")
PLACES = {"start": "start", "cpu": "CPU", "cuda": "GPU"}


def print_builds(comparison: BuildComparison) -> None:
    """Who was compared, what they take, and what may be said of the difference."""
    for side in (comparison.a, comparison.b):
        write(_about(side))
    where = ", ".join(filter(None, [f"core {', '.join(map(str, comparison.cores))}", comparison.gpu]))
    write(f"{comparison.runs} rounds on {where}, each with fresh processes that take turns")
    _print_disk(comparison)
    _print_measures(comparison)
    for row in comparison.rows:
        if row.detail:
            write(f"{PLACES[row.where]}, {row.name}: {row.detail}", "red")
    for note in comparison.notes:
        write(note, "yellow")
    write(summary(comparison), "bold")


def _about(side: BuildSide) -> str:
    facts = [f"torch {side.version}", f"CUDA {side.cuda}" if side.cuda else "no CUDA", side.cpu_capability]
    facts += [f"{name}={value}" for name, value in side.environment.items()]
    return f"{side.label}: {side.path} ({', '.join(facts)})"


def _print_disk(comparison: BuildComparison) -> None:
    a, b = comparison.a.disk, comparison.b.disk
    rows: list[tuple[str, int | None, int | None]] = [
        ("torch's folder", a.folder, b.folder),
        ("libraries in it", a.libraries, b.libraries),
        ("GPU code in them", a.gpu_code, b.gpu_code),
        ("used by this GPU", a.gpu_code_used, b.gpu_code_used),
        ("all that a process loads", a.loaded, b.loaded),
    ]
    shown = [
        [label, *("unknown" if size is None else megabytes(size) for size in sizes)]
        for label, *sizes in rows
        if any(sizes)
    ]
    table(("on disk", *FIGURES[:2]), shown, right=FIGURES)


def _print_measures(comparison: BuildComparison) -> None:
    rows: list[list[Painted]] = []
    for row in comparison.rows:
        verdict = WORDS[row.outcome]
        if row.ratio is None or row.a is None or row.b is None:
            rows.append([_name(row), "", "", "", "", "", verdict])
            continue
        values = _amount(row.a, row.unit), _amount(row.b, row.unit)
        within = "-" if row.within is None else f"±{row.within:.1%}"
        spread = f"{max(row.spread_a or 0, row.spread_b or 0):.1%}"
        rows.append([_name(row), *values, f"{row.ratio:.3f}", within, spread, verdict])
    table(("measure", *FIGURES, "A takes"), rows, right=FIGURES)


def _name(row: MeasureRow) -> str:
    return row.name if row.where == "start" else f"{PLACES[row.where]} {row.name}"


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return megabytes(int(value))
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def summary(comparison: BuildComparison) -> str:
    """How many measures differ, and how much could hide."""
    counts = {word: sum(row.outcome == word for row in comparison.rows) for word in WORDS}
    parts = [
        f"A takes less in {counts['lower']}",
        f"more in {counts['higher']}",
        f"the same in {counts['same']}",
    ]
    parts += [f"{counts['noisy']} cannot be told"] if counts["noisy"] else []
    bad = counts["wrong"] + counts["failed"]
    parts += [f"{bad} left out for wrong results or failures"] if bad else []
    noise = f"; half of the intervals are wider than ±{comparison.noise:.1%}" if comparison.noise else ""
    return (
        f"of {len(comparison.rows)}: {', '.join(parts)} (at most {LEVEL:.0%} that a claim is chance{noise})"
    )
