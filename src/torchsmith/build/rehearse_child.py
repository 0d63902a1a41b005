"""Runs inside a build, on its configured tree: compiles a sample of objects, keeps them, tells their cost.

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
from pathlib import Path
from typing import Any

# Stands in for ninja while setuptools builds an extension: notes where the tree is, and compiles nothing.
STOP = """#!/bin/sh
case "$*" in *--version*) exec {ninja} --version ;; esac
pwd > {marker}
exit 1
"""


def configured(sample: dict[str, Any]) -> Path:
    """The folder of build.ninja: there already, made by the command, or found where that ran ninja."""
    tree = Path(sample["tree"])
    if (tree / "build.ninja").is_file():
        return tree
    top, ninja = Path(os.environ.get("NIX_BUILD_TOP", "/tmp")).resolve(), shutil.which("ninja")
    if ninja is None:
        sys.exit(
            "rehearsal: there is no ninja in this build's environment, so nothing can be compiled one by one"
        )
    folder, marker = top / "torchsmith-bin", top / "torchsmith-tree"
    folder.mkdir(exist_ok=True)
    (folder / "ninja").write_text(STOP.format(ninja=ninja, marker=shlex.quote(str(marker))))
    (folder / "ninja").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", sample["configure"]], env=environment)
    if (tree / "build.ninja").is_file():
        return tree
    if not marker.is_file():
        sys.exit(f"rehearsal: {sample['configure']} (exit code {done.returncode}) left no build.ninja")
    return Path(marker.read_text().strip())


def objects(tree: Path) -> dict[str, dict[str, str]]:
    """Every object that the tree would compile, by its output, with its command and source."""
    told = subprocess.run(["ninja", "-C", str(tree), "-t", "compdb"], check=True, stdout=subprocess.PIPE)
    text = told.stdout.decode(errors="replace")
    rows = json.loads(text[text.index("[") :])
    return {row["output"]: row for row in rows if row.get("output", "").endswith((".o", ".obj"))}


def kind_of(row: dict[str, str], dispatched: str) -> str:
    """What an object costs depends on: its language, and whether it is one form of several."""
    if row["file"].endswith(".cu"):
        return "CUDA"
    if dispatched and re.search(dispatched, row["output"]):
        return "dispatched"
    return "C" if row["file"].endswith(".c") and ".cpp" not in row["output"] else "C++"


def chosen(rows: dict[str, dict[str, str]], sample: dict[str, Any]) -> dict[str, str]:
    """What to compile, and why: what the sample names, and some of each kind, evenly spread."""
    why: dict[str, str] = {}
    for one in sample["objects"]:
        found = sorted(output for output in rows if re.search(one["pattern"], output))
        for output in found if one["each"] else found[:1]:
            why.setdefault(output, one["what"])
    kinds: dict[str, list[str]] = {}
    for output in sorted(rows):
        kinds.setdefault(kind_of(rows[output], sample["dispatched"]), []).append(output)
    for kind, outputs in kinds.items():
        count = min(sample["draw"], len(outputs))
        for place in range(count):
            output = outputs[(2 * place + 1) * len(outputs) // (2 * count)]
            why[output] = f"drawn {kind}"
    return why


def log_seconds(tree: Path) -> dict[str, float]:
    """How long each step took, by ninja's own log."""
    seconds: dict[str, float] = {}
    for line in (tree / ".ninja_log").read_text(errors="replace").splitlines():
        words = line.split("\t")
        if len(words) >= 4 and words[0].isdigit():
            seconds[words[3]] = (int(words[1]) - int(words[0])) / 1000
    return seconds


def main() -> None:
    sample = json.loads(Path(sys.argv[1]).read_text())
    out, before = Path(sys.argv[2]), float(sys.argv[3])
    began = time.monotonic()
    tree = configured(sample)
    configure = before + time.monotonic() - began
    rows = objects(tree)
    why = chosen(rows, sample)
    cores = int(os.environ.get("NIX_BUILD_CORES") or 0) or len(os.sched_getaffinity(0))
    print(
        f"rehearsal: configured in {configure:.0f} s; {len(why)} of {len(rows)} objects are compiled",
        flush=True,
    )
    known = log_seconds(tree) if (tree / ".ninja_log").is_file() else {}
    usage, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(["ninja", "-C", str(tree), "-k", "0", "-j", str(cores), *why])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.monotonic() - began
    made = [output for output in why if (tree / output).is_file()]
    print(f"rehearsal: compiled {len(made)} of {len(why)} sampled objects in {wall:.0f} s", flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    spent = used.ru_utime + used.ru_stime - usage.ru_utime - usage.ru_stime
    steps = {name: length for name, length in log_seconds(tree).items() if known.get(name) != length}
    share = spent / (sum(steps.values()) or 1.0)
    keep(tree, out, rows, made)
    counts: dict[str, int] = {}
    for row in rows.values():
        kind = kind_of(row, sample["dispatched"])
        counts[kind] = counts.get(kind, 0) + 1
    told = {
        "configure_seconds": configure,
        "compile_seconds": wall,
        "cpu_seconds": spent,
        "cores": cores,
        "steps": len(steps),
        "objects": len(rows),
        "counts": counts,
        "compiled": [
            {
                "output": output,
                "source": rows[output]["file"],
                "kind": kind_of(rows[output], sample["dispatched"]),
                "why": why[output],
                "cpu_seconds": steps.get(output, 0.0) * share,
            }
            for output in made
        ],
    }
    (out / "rehearsal.json").write_text(json.dumps(told, indent=1))


def keep(tree: Path, out: Path, rows: dict[str, dict[str, str]], made: list[str]) -> None:
    """The objects under their own names, and the commands of all."""
    (out / "compile_commands.json").write_text(json.dumps(list(rows.values()), indent=1))
    for output in made:
        path = Path(output) if not os.path.isabs(output) else Path(os.path.relpath(output, tree.resolve()))
        target = out / "objects" / str(path).replace("..", "up")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / output, target)


main()
