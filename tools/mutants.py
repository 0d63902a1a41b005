"""`python -m tools.mutants`: small faults drawn from all packages by a seed, and the tests that notice them.

Each mutant changes one comparison, number, boolean or operator, or drops a statement, in a copy of the
sources; the tests that name its module run first, then those of its package, until one fails. What no test
notices is printed, and written as JSON with --out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src/torchsmith"
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SKIPPED = ("annotation", "returns", "decorator_list")
# Tests of these packages reach what has few tests of its own.
ALSO = {
    "verbs": ("cli", "api"),
    "cli": ("cli", "api"),
    "edit": ("edit", "cli"),
    "repair": ("repair", "building"),
}


@dataclass(frozen=True)
class Mutant:
    """A place in a file and what stands there instead."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str


def sites(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    text = path.read_bytes()
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))

    def mutant(node: ast.expr | ast.stmt, after: str) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return Mutant(str(path.relative_to(ROOT)), node.lineno, start, end, text[start:end].decode(), after)

    def walk(node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.JoinedStr():
                return  # its parts have no places of their own
            case ast.Compare(ops=[op]):
                yield mutant(
                    node, f"({ast.unparse(ast.Compare(node.left, [SWAPS[type(op)]()], node.comparators))})"
                )
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield mutant(node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
            case ast.UnaryOp(op=ast.Not()):
                yield mutant(node, f"bool({ast.unparse(node.operand)})")
            case ast.Constant(value=bool()):
                yield mutant(node, str(not node.value))
            case ast.Constant(value=int() | float() as number):
                yield mutant(node, repr(number + 1))
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield mutant(node, "pass")
            case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
                yield mutant(node, "return None")
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
        for name, value in ast.iter_fields(node):
            if name in SKIPPED or (isinstance(node, ast.ClassDef) and name == "keywords"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)

    yield from walk(ast.parse(text))


def drawn(seed: int, count: int) -> list[Mutant]:
    """So many mutants of all sources, the same for the same seed and sources."""
    files = [path for path in sorted(SOURCES.rglob("*.py")) if "samples" not in path.parts]
    every = [mutant for path in files for mutant in sites(path)]
    return random.Random(seed).sample(every, count)


def tests_for(mutant: Mutant, *, quick: bool) -> list[str]:
    """The test files of a mutant's package, those that name its module first; then others that name it.
    `quick`: only those of the package that name it, if there are any."""
    parts = Path(mutant.file).with_suffix("").parts[1:]
    package, name = parts[1], ".".join(parts)
    folders = [ROOT / "tests" / folder for folder in ALSO.get(package, (package,))]
    own = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    naming = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if name in path.read_text()]
    first = [path for path in own if path in naming or parts[-1] in path.stem]
    chosen = first if quick and first else [*first, *own, *naming]
    return [str(path.relative_to(ROOT)) for path in dict.fromkeys(chosen)]


def outcome(mutant: Mutant, folder: Path, options: argparse.Namespace) -> str:
    """`killed`, `survived`, `slow` if the time was over before a test failed, or `unsure` if the tests
    fail without the mutant too."""
    file = folder / mutant.file
    original = file.read_bytes()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += ["-m", "not long and not needs" if options.quick else "not long", f"--basetemp={folder}/tmp"]
    command += tests_for(mutant, quick=options.quick)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def fails() -> bool:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=options.seconds, capture_output=True
        )
        return done.returncode != 0

    file.write_bytes(original[: mutant.start] + mutant.after.encode() + original[mutant.end :])
    try:
        if not fails():
            return "survived"
        file.write_bytes(original)
        return "unsure" if fails() else "killed"
    except subprocess.TimeoutExpired:
        return "slow"
    finally:
        file.write_bytes(original)


def main(options: argparse.Namespace) -> int:
    if options.only:
        rows = [row for row in json.loads(options.only.read_text()) if row.pop("outcome") != "killed"]
        mutants = [Mutant(**row) for row in rows]
    else:
        mutants = drawn(options.seed, options.count)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            shutil.copytree(ROOT / "src", Path(scratch, str(number), "src"))
            free.put(Path(scratch, str(number)))

        def judge(mutant: Mutant) -> str:
            folder = free.get()
            try:
                return outcome(mutant, folder, options)
            finally:
                free.put(folder)

        rows = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for mutant, verdict in zip(mutants, pool.map(judge, mutants), strict=True):
                rows.append({**asdict(mutant), "outcome": verdict})
                if verdict != "killed":
                    print(
                        f"{verdict}: {mutant.file}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}",
                        flush=True,
                    )
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1))
    print(f"{sum(row['outcome'] == 'killed' for row in rows)} of {len(rows)} mutants killed")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=180, help="for all tests of a mutant")
    parser.add_argument("--quick", action="store_true", help="no Nix, and only tests that name the module")
    parser.add_argument("--only", type=Path, help="a file of --out: its mutants that no test killed, again")
    parser.add_argument("--scratch", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    sys.exit(main(parser.parse_args()))
