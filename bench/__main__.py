"""`make bench`: one table of ratios for people, and the same as JSON in bench.json."""

from __future__ import annotations

import importlib
import json
import platform
import signal
import sys
from pathlib import Path

from bench.measure import Row, Timing
from torchsmith.cli.console import table

# One module a capability; each has `rows()`.
MODULES = (
    "startup",
    "generate",
    "evaluate",
    "host",
    "artifact",
    "auditing",
    "farm",
    "load",
    "page",
    "growth",
)
FILE = Path("bench.json")


def main(chosen: list[str]) -> int:
    """Measure the modules named, or all of them."""
    unknown = set(chosen) - set(MODULES)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    failures: dict[str, str] = {}
    for name in chosen or MODULES:
        print(f"measuring {name}", file=sys.stderr)
        try:
            rows.extend(importlib.import_module(f"bench.{name}").rows())  # keeps the rows before a failure
        except Exception as error:  # a program that is missing, a build that fails: the others still run
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    shown = []
    for row in rows:
        bound = "at most" if row.better == "lower" else "at least"
        met = "yes" if row.met else "no"
        ours, theirs = _shown(row.ours, row.unit), _shown(row.theirs, row.unit)
        goal = f"{bound} {row.goal:g}x"
        shown.append([row.what, row.rival, ours, theirs, f"{row.ratio:.2f}x", goal, met])
    shown += [[name, "", "", "", "", "", "could not run"] for name in failures]
    table(("what", "rival", "ours", "theirs", "ratio", "goal", "met"), shown, broken=("what", "rival"))
    for name, why in failures.items():
        print(f"{name} could not run: {why}")
    for row in rows:
        if row.note:
            print(f"{row.what}: {row.note}")
    FILE.write_text(
        json.dumps(
            {"machine": _machine(), "rows": [_data(row) for row in rows], "could_not_run": failures}, indent=2
        )
        + "\n"
    )
    print(f"written: {FILE}", file=sys.stderr)
    return 0


def _shown(timing: Timing, unit: str) -> str:
    median, spread = timing.median, f" ±{timing.spread:.0%}" if len(timing.seconds) > 1 else ""
    if unit == "MB":
        return f"{median:.2f} MB{spread}"
    return (f"{median * 1000:.1f} ms" if median < 1 else f"{median:.2f} s") + spread


def _machine() -> dict[str, str]:
    return {"machine": platform.machine(), "python": platform.python_version(), "system": platform.system()}


def _data(row: Row) -> dict[str, object]:
    return {
        "what": row.what,
        "rival": row.rival,
        "ratio": row.ratio,
        "better": row.better,
        "goal": row.goal,
        "met": row.met,
        "ours_seconds": row.ours.seconds,
        "theirs_seconds": row.theirs.seconds,
        "note": row.note,
        "unit": row.unit,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its folders go all the same
    sys.exit(main(sys.argv[1:]))
