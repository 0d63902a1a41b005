"""What a recipe costs when there are many: CPU time of each verb at 132, 1,260 and some 4,500 recipes.
The ratio of a row is what a recipe costs at the largest size against what it costs at the middle one.
What people wait for has a limit there, in seconds by the clock."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measure import Row, Timing

GOAL = 1.3
PAGE_MB = 3.0
PACKAGES = ("pytorch", "torchvision", "torchaudio")
MORE = (*PACKAGES, "xformers", "flash-attn", "bitsandbytes", "torchsde", "vllm", "onnxruntime")
PYTHONS = ("3.11", "3.12", "3.13")  # those of the sample nixpkgs: failures are not kept
ISAS = ("avx", "avx2", "avx512", "avx512bf16", "avx512vnni")
SMS = ("sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120")
PLAN = 'format = 1\nprofile = "seed"\n'
SIZES = (
    (PACKAGES, PYTHONS, ("12.8", "12.9", "13.0"), SMS),
    (MORE, PYTHONS, ("12.6", "12.8", "12.9", "13.0"), (*SMS, "sm103")),
)
VERBS = {
    "generate": ("apply", "--no-git"),
    "page, nothing kept": ("page", "-o", "page.html"),
    "audit, cold": ("audit",),
    "audit, unchanged": ("audit",),
    "page": ("page", "-o", "page.html"),
    "eval, cold": ("eval", "--nixpkgs", "sample", "--no-cache"),
    "build --dry-run, cold": ("build", "--dry-run", "--nixpkgs", "sample"),
    "build --dry-run, again": ("build", "--dry-run", "--nixpkgs", "sample"),
}
LIMITS = {"page, nothing kept": 10.0, "audit, cold": 10.0, "build --dry-run, again": 15.0}
CONF = "sandbox = false\nbuild-users-group =\nsubstituters =\n"


def rows() -> Iterator[Row]:
    """A row a verb; what each took at every size stands in its note."""
    with tempfile.TemporaryDirectory(prefix="torchsmith-bench-") as place:
        folder = Path(place)
        env = _environment(folder)
        costs: dict[str, list[tuple[int, float]]] = {name: [] for name in VERBS}
        waits: dict[str, float] = {}
        for number, settings in enumerate((PLAN, *(_settings(*size) for size in SIZES))):
            root = folder / str(number)
            root.mkdir()
            (root / "torchsmith.toml").write_text(settings)
            for name, arguments in VERBS.items():
                kept = (
                    {"TORCHSMITH_CACHE": str(folder / f"cache{number}")}
                    if name == "page, nothing kept"
                    else {}
                )
                start = time.perf_counter()
                seconds = _cpu_seconds(arguments, root, env | kept)
                waits[name] = time.perf_counter() - start
                count = sum(1 for _ in root.glob("build-*/.flox/pkgs/*.nix"))
                costs[name].append((count, seconds))
            size = Timing(((root / "page.html").stat().st_size / 1e6,))
        yield Row(f"growth: page of {count}", "limit", size, Timing((PAGE_MB,)), 1.0, "lower", unit="MB")
    for name, limit in LIMITS.items():
        wait = Timing((waits[name],)), Timing((limit,))
        yield Row(f"growth: {name}, {count}, by the clock", "limit", *wait, 1.0, "lower")
    for name, measured in costs.items():
        (_, _), (middle, before), (most, after) = measured
        note = ", ".join(f"{count} recipes: {seconds:.1f} CPU s" for count, seconds in measured)
        each = Timing((after / most,)), Timing((before / middle,))
        yield Row(f"growth: {name}", f"a recipe of {middle}", *each, GOAL, "lower", note)


def _settings(
    packages: Sequence[str], pythons: Sequence[str], cudas: Sequence[str], sms: Sequence[str]
) -> str:
    axes = {"python": pythons, "cuda": cudas, "sm": sms, "isa": ISAS}
    lines = [f"{name} = [{', '.join(map(_quoted, values))}]" for name, values in axes.items()]
    head = f'format = 1\npackages = [{", ".join(map(_quoted, packages))}]\n\n[[matrix]]\nline = "2.10"\n'
    return head + "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    return f'"{word}"'


def _environment(folder: Path) -> dict[str, str]:
    """A store and caches of its own."""
    (folder / "conf").mkdir()
    (folder / "conf/nix.conf").write_text(CONF)
    names = {"NIX_STORE_DIR": "store", "NIX_STATE_DIR": "var", "NIX_LOG_DIR": "log", "NIX_CONF_DIR": "conf"}
    names |= {"XDG_CACHE_HOME": "xdg"}
    return {**os.environ, **{name: str(folder / part) for name, part in names.items()}}


def _cpu_seconds(arguments: Sequence[str], root: Path, env: dict[str, str]) -> float:
    """User and system time of a verb and of all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-m", "torchsmith", *arguments]
    subprocess.run(argv, cwd=root, env=env, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
