"""`python -m tools.mutants`: small faults drawn from all packages by a seed, and the tests that notice them.

Each mutant changes one comparison, number, boolean or operator, or drops a statement, in a copy of the
sources; tests of its package and those that name its module run until one fails, those first that mention it
most. What no test notices is printed, and written as JSON with --out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
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
MOST_QUICK = 4


@dataclass(frozen=True)
class Mutant:
    """A place in a file, the class and function that it is in, and what replaces it."""

    file: str
    line: int
    scope: str
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

    def walk(node: ast.AST, scope: str) -> Iterator[Mutant]:
        def mutant(node: ast.expr | ast.stmt, after: str) -> Mutant:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            file = str(path.relative_to(ROOT))
            return Mutant(file, node.lineno, scope, start, end, text[start:end].decode(), after)

        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                scope = f"{scope} {node.name}".strip()
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
                    yield from walk(child, scope)

    yield from walk(ast.parse(text), "")


def drawn(seed: int, count: int) -> list[Mutant]:
    """So many mutants of all sources, the same for the same seed and sources."""
    files = [path for path in sorted(SOURCES.rglob("*.py")) if "samples" not in path.parts]
    every = [mutant for path in files for mutant in sites(path)]
    return random.Random(seed).sample(every, count)


def tests_for(mutant: Mutant, *, quick: bool) -> list[str]:
    """The test files of a mutant's package and all that name its module or verb; those first that mention
    it or what the mutant is in most often. `quick`: only the first few."""
    parts = Path(mutant.file).with_suffix("").parts[1:]
    package, stem = parts[1], parts[-1]
    name = re.compile(re.escape(".".join(parts)) + (f'|"{stem}"' if package == "verbs" else ""))
    words = re.compile(rf"\b({'|'.join(map(re.escape, [stem, *mutant.scope.split()]))})\b")
    folders = ALSO.get(package, (package,))
    ranks = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if path.relative_to(ROOT).parts[1] in folders or name.search(text):
            ranks[str(path.relative_to(ROOT))] = len(words.findall(text)) + 10 * (stem in path.stem)
    best = sorted(ranks, key=lambda path: -ranks[path])
    return best[:MOST_QUICK] if quick else best


def outcome(mutant: Mutant, folder: Path, options: argparse.Namespace) -> str:
    """`killed`, `survived`, `slow` if the time was over before a test failed, or `unsure` if the test that
    failed fails without the mutant too."""
    file = folder / mutant.file
    original = file.read_bytes()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--assert=plain"]
    command += ["-o", f"cache_dir={folder}/cache", f"--basetemp={folder}/tmp"]
    command += ["-m", "not long and not needs" if options.quick else "not long"]
    command += tests_for(mutant, quick=options.quick)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each run would compile all that it imports

    def fails(*more: str) -> bool:
        Path(cache_from_source(str(file))).unlink(missing_ok=True)  # of another text, perhaps as old and long
        done = subprocess.run(
            [*command, *more], cwd=ROOT, env=environment, timeout=options.seconds, capture_output=True
        )
        return done.returncode != 0

    file.write_bytes(original[: mutant.start] + mutant.after.encode() + original[mutant.end :])
    try:
        if not fails():
            return "survived"
        file.write_bytes(original)
        return "unsure" if fails("--last-failed") else "killed"
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
    parser.add_argument(
        "--quick", action="store_true", help=f"no Nix, and only the first {MOST_QUICK} test files"
    )
    parser.add_argument("--only", type=Path, help="a file of --out: its mutants that no test killed, again")
    parser.add_argument("--scratch", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    sys.exit(main(parser.parse_args()))
