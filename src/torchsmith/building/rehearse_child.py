"""Runs inside a build, on its configured tree: compiles a sample of objects, keeps them, reports their cost.

Only the standard library is imported: this text is part of a derivation.
"""

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

# Replaces ninja while setuptools builds extensions: notes the tree, writes an empty object in place of
# each, so that the next extension comes to its turn too. What CMake tries meanwhile is left to the real one.
STAND_IN = """#!{python}
import json, os, shutil, subprocess, sys
if "--version" in sys.argv or "-t" in sys.argv or "/CMakeFiles/" in os.getcwd():
    os.execv({ninja!r}, [{ninja!r}, *sys.argv[1:]])
trees = {trees!r}
os.makedirs(trees, exist_ok=True)
kept = os.path.join(trees, str(len(os.listdir(trees))) + ".ninja")
shutil.copy("build.ninja", kept)
with open({marker!r}, "a") as marker:
    marker.write(json.dumps([os.getcwd(), kept]) + chr(10))
listing = subprocess.run([{ninja!r}, "-t", "compdb"], check=True, stdout=subprocess.PIPE).stdout
for row in json.loads(listing):
    if row.get("output", "").endswith(".o"):
        os.makedirs(os.path.dirname(row["output"]) or ".", exist_ok=True)
        shutil.copy({empty!r}, row["output"])
"""
NinjaTree = tuple[Path, Path]  # a folder, and ninja's file for it
ObjectRows = dict[str, dict[str, str]]


def configured(sample: dict[str, Any]) -> list[NinjaTree]:
    """The trees to compile in: there already, made by the command, or found where that ran ninja."""
    tree = Path(sample["tree"])
    if (tree / "build.ninja").is_file():
        return [(tree, tree / "build.ninja")]
    top, ninja = Path(os.environ.get("NIX_BUILD_TOP", "/tmp")).resolve(), shutil.which("ninja")
    if ninja is None:
        sys.exit("rehearsal: this build has no ninja, so nothing can be compiled one by one")
    folder, marker, empty = top / "torchsmith-bin", top / "torchsmith-trees.txt", top / "torchsmith-empty.o"
    folder.mkdir(exist_ok=True)
    compiler = shlex.split(os.environ.get("CXX") or os.environ.get("CC") or "cc")
    subprocess.run([*compiler, "-x", "c++", "-fPIC", "-c", os.devnull, "-o", str(empty)], check=True)
    values = {"python": sys.executable, "ninja": ninja, "marker": str(marker), "empty": str(empty)}
    (folder / "ninja").write_text(STAND_IN.format(trees=str(top / "torchsmith-trees"), **values))
    (folder / "ninja").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", sample["configure"]], env=environment)
    if (tree / "build.ninja").is_file() and not marker.is_file():
        return [(tree, tree / "build.ninja")]
    if not marker.is_file():
        sys.exit(f"rehearsal: {sample['configure']} (exit code {done.returncode}) left no build.ninja")
    marked = [json.loads(line) for line in marker.read_text().splitlines()]
    return [(Path(place), Path(file)) for place, file in marked]


def ninja_in(tree: NinjaTree, *arguments: str) -> list[str]:
    return ["ninja", "-C", str(tree[0]), "-f", str(tree[1].resolve()), *arguments]


def objects(tree: NinjaTree) -> ObjectRows:
    """Every object that a tree would compile, by its output, with its command and source."""
    done = subprocess.run(ninja_in(tree, "-t", "compdb"), check=True, stdout=subprocess.PIPE)
    text = done.stdout.decode(errors="replace")
    rows = json.loads(text[text.index("[") :])
    rows_by_output = {row["output"]: row for row in rows if row.get("output", "").endswith((".o", ".obj"))}
    if tree[1].parent != tree[0]:  # empty ones that the replacement wrote there
        for output in rows_by_output:
            (tree[0] / output).unlink(missing_ok=True)
    return rows_by_output


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


def log_steps(trees: list[NinjaTree]) -> dict[str, tuple[str, ...]]:
    """Each output's step by ninja's own logs: tree, start, end and command. A generator of thousands of files
    is one step, however many lines it has."""
    steps: dict[str, tuple[str, ...]] = {}
    for folder in dict.fromkeys(tree[0] for tree in trees):
        log = folder / ".ninja_log"
        for line in log.read_text(errors="replace").splitlines() if log.is_file() else ():
            start, end, _, output, *command = [*line.split("\t"), "", "", ""][:5]
            if start.isdigit() and end.isdigit():
                steps[output] = (str(folder), start, end, *command)
    return steps


def seconds_of(step: tuple[str, ...]) -> float:
    return (int(step[2]) - int(step[1])) / 1000


def compiled(by_tree: list[tuple[NinjaTree, ObjectRows]], why: dict[str, str], cores: int) -> int:
    """Compile the chosen objects. Returns 0, or the exit code of the first ninja that failed."""
    failed = 0
    for tree, rows in by_tree:
        wanted = [output for output in why if output in rows]
        if wanted:
            done = subprocess.run(ninja_in(tree, "-k", "0", "-j", str(cores), *wanted))
            failed = failed or done.returncode
    return failed


def main() -> None:
    sample = json.loads(Path(sys.argv[1]).read_text())
    out, before = Path(sys.argv[2]), float(sys.argv[3])
    os.environ["CCACHE_DISABLE"] = "1"  # objects from a compile cache have no cost to measure
    began = time.monotonic()
    trees = configured(sample)
    configure = before + time.monotonic() - began
    by_tree = [(tree, objects(tree)) for tree in trees]
    rows = {output: row for _, own in by_tree for output, row in own.items()}
    places = {output: tree[0] / output for tree, own in by_tree for output in own}
    why = chosen(rows, sample)
    cores = int(os.environ.get("NIX_BUILD_CORES") or 0) or len(os.sched_getaffinity(0))
    say(f"configured in {configure:.0f} s; compiling {len(why)} of {len(rows)} objects")
    known, spent, began = log_steps(trees), cpu_seconds(), time.monotonic()
    failed = compiled(by_tree, why, cores)
    spent, wall = cpu_seconds() - spent, time.monotonic() - began
    made = [output for output in why if places[output].is_file()]
    say(f"compiled {len(made)} of {len(why)} sampled objects in {wall:.0f} s")
    if failed:
        sys.exit(failed)
    taken = {output: step for output, step in log_steps(trees).items() if known.get(output) != step}
    steps = set(taken.values())
    keep(out, {output: places[output] for output in made})
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


def keep(out: Path, made: dict[str, Path]) -> None:
    """The objects under their own names."""
    for output, path in made.items():
        target = out / "objects" / output.lstrip("/").replace("..", "up")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


main()
