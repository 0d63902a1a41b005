"""Runs inside a build, on its configured tree: compiles a sample of objects, keeps them, reports their cost.

Only the standard library is imported: this text is part of a derivation.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ObjectRows = dict[str, dict[str, str]]


def configured(sample: dict[str, Any]) -> Path:
    """The tree to compile in: there already, or made by the command."""
    tree = Path(sample["tree"])
    if not (tree / "build.ninja").is_file():
        done = subprocess.run(["bash", "-c", sample["configure"]])
        if not (tree / "build.ninja").is_file():
            sys.exit(f"rehearsal: {sample['configure']} (exit code {done.returncode}) left no build.ninja")
    return tree


def objects(tree: Path) -> ObjectRows:
    """Every object that a tree would compile, by its output, with its command and source."""
    done = subprocess.run(["ninja", "-C", tree, "-t", "compdb"], check=True, stdout=subprocess.PIPE)
    text = done.stdout.decode(errors="replace")
    rows = json.loads(text[text.index("[") :])
    return {row["output"]: row for row in rows if row.get("output", "").endswith((".o", ".obj"))}


def kind_of(row: dict[str, str], dispatched: str) -> str:
    """What an object's cost depends on: its language, and whether it is dispatched by instruction set."""
    if row["file"].endswith(".cu"):
        return "CUDA"
    if dispatched and re.search(dispatched, row["output"]):
        return "dispatched"
    return "C" if row["file"].endswith(".c") and ".cpp" not in row["output"] else "C++"


def chosen(rows: ObjectRows, sample: dict[str, Any]) -> dict[str, str]:
    """The objects to compile: those that the sample names, with the reason, and some of each kind, evenly
    spread, without one."""
    why: dict[str, str] = {}
    for wanted in sample["objects"]:
        matching = sorted(output for output in rows if re.search(wanted["pattern"], output))
        for output in matching if wanted["each"] else matching[:1]:
            why.setdefault(output, wanted["what"])
    kinds: dict[str, list[str]] = {}
    for output in sorted(rows):
        kinds.setdefault(kind_of(rows[output], sample["dispatched"]), []).append(output)
    for outputs in kinds.values():
        count = min(sample["draw"], len(outputs))
        for place in range(count):
            output = outputs[(2 * place + 1) * len(outputs) // (2 * count)]
            why[output] = ""
    return why


def log_steps(tree: Path) -> dict[str, tuple[str, ...]]:
    """Each output's step by ninja's own log: start, end and command. A generator of thousands of files is
    one step, however many lines it has."""
    steps: dict[str, tuple[str, ...]] = {}
    log = tree / ".ninja_log"
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else ():
        start, end, _, output, *command = [*line.split("\t"), "", "", ""][:5]
        if start.isdigit() and end.isdigit():
            steps[output] = (start, end, *command)
    return steps


def seconds_of(step: tuple[str, ...]) -> float:
    return (int(step[1]) - int(step[0])) / 1000


def main() -> None:
    sample = json.loads(Path(sys.argv[1]).read_text())
    out, before = Path(sys.argv[2]), float(sys.argv[3])
    os.environ["CCACHE_DISABLE"] = "1"  # objects from a compile cache have no cost to measure
    began = time.monotonic()
    tree = configured(sample)
    configure = before + time.monotonic() - began
    rows = objects(tree)
    why = chosen(rows, sample)
    if not why:
        sys.exit("rehearsal: there is no object to compile")
    cores = int(os.environ.get("NIX_BUILD_CORES") or 0) or len(os.sched_getaffinity(0))
    say(f"configured in {configure:.0f} s; compiling {len(why)} of {len(rows)} objects")
    known, spent, began = log_steps(tree), cpu_seconds(), time.monotonic()
    done = subprocess.run(["ninja", "-C", tree, "-k", "0", "-j", str(cores), *why])
    spent, wall = cpu_seconds() - spent, time.monotonic() - began
    made = [output for output in why if (tree / output).is_file()]
    say(f"compiled {len(made)} of {len(why)} sampled objects in {wall:.0f} s")
    if done.returncode:
        sys.exit(done.returncode)
    taken = {output: step for output, step in log_steps(tree).items() if known.get(output) != step}
    steps = set(taken.values())
    for output in made:
        keep(tree / output, out / "objects" / output.lstrip("/").replace("..", "up"))
    kinds = {output: kind_of(row, sample["dispatched"]) for output, row in rows.items()}
    share = spent / (sum(map(seconds_of, steps)) or 1.0)
    units = [
        {"output": output, "source": rows[output]["file"], "kind": kinds[output], "why": why[output]}
        | {"cpu_seconds": seconds_of(taken[output]) * share if output in taken else 0.0}
        for output in made
    ]
    figures = {
        "configure_seconds": configure,
        "compile_seconds": wall,
        "cpu_seconds": spent,
        "cores": cores,
        "steps": len(steps),
        "objects": len(rows),
        "counts": dict(sorted(Counter(kinds.values()).items())),
        "compiled": units,
    }
    (out / "rehearsal.json").write_text(json.dumps(figures, indent=1))


def say(message: str) -> None:
    print(f"rehearsal: {message}", flush=True)


def cpu_seconds() -> float:
    """CPU seconds of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keep(made: Path, target: Path) -> None:
    """Keep an object under its own name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, target)


main()
