"""Whether `compare` tells the truth on real rounds: false alarms, and planted slowdowns that it misses.

    python -m tools.compare_truth ENV --rounds 64 --keep rounds.json     # measures ENV against itself
    python -m tools.compare_truth rounds.json                            # judges kept rounds again

B is the same build, but some operations spend 5 % more CPU time. Comparisons of 16 rounds are then drawn out
of all: one planted operation at a time, beside those without a plant.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from torchsmith.benchmark.compare import rows_of
from torchsmith.benchmark.cores import busy_shares, choose
from torchsmith.benchmark.measure import Measurements, MeasuringPlan, Turns, measure, paired_times
from torchsmith.benchmark.subject import PROBE, BuildSubject, subject
from torchsmith.catalog import builtin_catalog

PLANTED = ("exp", "softmax", "sort", "GEMM 256", "layer norm", "gelu")
PLANT = """
def slower(action):
    def run(*values):
        start = time.thread_time_ns()
        result = action(*values)
        end = time.thread_time_ns()
        end += (end - start) // 20
        while time.thread_time_ns() < end:
            pass
        return result
    return run

real_table = table

def table(torch):
    rows = real_table(torch)
    return {n: (k, v, slower(a) if n in PLANTED else a, e) for n, (k, v, a, e) in rows.items()}
"""
Rounds = dict[str, list[Turns]]
Settle = Callable[[list[float], list[float]], tuple[float, float]]


def best_of_six(a: list[float], b: list[float]) -> tuple[float, float]:
    """What a round came to before its turns were paired, to compare with."""
    return min(a[:6]), min(b[:6])


def measured(environment: Path, rounds: int) -> Rounds:
    """Every round of every operation on the CPU."""
    catalog = builtin_catalog()
    a = subject("A", environment, catalog, {})
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.py"
        planted = PLANT.replace("PLANTED", repr(PLANTED))
        probe.write_text(PROBE.read_text().replace("\n\nmain()\n", f"\n\n{planted}\n\nmain()\n"))
        b = BuildSubject("B", a.path, a.interpreter, {}, probe)
        plan = MeasuringPlan(rounds, tuple(choose(busy_shares(), 1)), 300)
        found = measure([a, b], plan, lambda done, total: print(f"\r{done}/{total}", end="", flush=True))
    return {name: turns for (where, name), turns in found.turns.items() if where == "cpu"}


def claims(rounds: Rounds, names: list[str], chosen: list[int], settle: Settle) -> set[str]:
    """The operations that a comparison of these rounds calls different."""
    found = Measurements()
    for name in names:
        pairs = [settle(*rounds[name][one]) for one in chosen]
        found.values["cpu", name] = [one for one, _ in pairs], [other for _, other in pairs]
        found.operations["cpu", name] = None
    return {row.name for row in rows_of(found) if row.outcome in ("lower", "higher")}


def judge(words: str, sets: list[list[int]], rounds: Rounds, settle: Settle) -> None:
    """Print false alarms, and how often each planted slowdown is found."""
    equal = [name for name in rounds if name not in PLANTED]
    false = [len(claims(rounds, equal, one, settle)) for one in sets]
    print(f"\n{words}")
    print(
        f"  equal operations called different: {sum(false)} of {len(equal) * len(sets)},"
        f" at most {max(false)} of {len(equal)} in one"
    )
    for name in PLANTED:
        found = sum(name in claims(rounds, [*equal, name], one, settle) for one in sets)
        print(f"  5 % planted in {name}: found in {found} of {len(sets)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("given", type=Path, help="an environment, or rounds that were kept")
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--runs", type=int, default=16, help="rounds of one comparison")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.given.suffix == ".json":
        rounds: Rounds = json.loads(options.given.read_text())
    else:
        rounds = measured(options.given, options.rounds)
    if options.keep:
        options.keep.write_text(json.dumps(rounds))
    total = len(next(iter(rounds.values())))
    dice = random.Random(0)
    drawn = [sorted(dice.sample(range(total), options.runs)) for _ in range(options.draws)]
    apart = [list(range(at, at + options.runs)) for at in range(0, total - options.runs + 1, options.runs)]
    for settle in (paired_times, best_of_six):
        for words, sets in (("disjoint", apart), ("drawn", drawn)):
            about = f"{len(sets)} {words} comparisons of {options.runs} out of {total} rounds"
            judge(f"{about}, by {settle.__name__}", sets, rounds, settle)


main()
