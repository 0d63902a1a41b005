"""Generating recipes, against copying the finished tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, in_turn
from torchsmith.verbs.apply import ApplyRequest, apply

RECIPES = 1000
TEXT = """
format = 1
packages = ["pytorch", "torchvision", "torchaudio"]
[[matrix]]
line = "2.10"
python = ["3.11", "3.12", "3.13"]
cuda = ["12.8", "12.9", "13.0", "cpu"]
sm = ["sm80", "sm86", "sm89", "sm90", "sm100", "sm120"]
isa = ["avx2", "avx512", "avx512bf16", "avx512vnni", "armv8_2", "armv9"]
"""


def rows() -> Iterator[Row]:
    """A thousand standalone recipes and their pages: written anew, and looked at when nothing changed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        (root / "torchsmith.toml").write_text(TEXT)
        request = ApplyRequest(workspace=root)
        apply(request)
        count = sum(1 for _ in root.glob("build-*/.flox/pkgs/*.nix"))
        assert count >= RECIPES, count
        master = Path(folder) / "master"
        shutil.copytree(root, master, ignore=shutil.ignore_patterns(".git", ".torchsmith"))

        def afresh() -> None:
            fresh = Path(tempfile.mkdtemp(dir=folder))
            (fresh / "torchsmith.toml").write_text(TEXT)
            apply(ApplyRequest(workspace=fresh))

        def copied() -> None:
            subprocess.run(["cp", "-r", master, Path(tempfile.mkdtemp(dir=folder))], check=True)

        ours, theirs = in_turn(afresh, copied, repeats=5)
        start = _start_up() * 1000
        note = f"with git init and git add; starting Python and torchsmith besides: {start:.0f} ms"
        yield Row(f"generate {count} recipes", "cp -r of the same tree", ours, theirs, 10.0, "lower", note)
        ours, theirs = in_turn(lambda: _unchanged(request), copied, repeats=5)
        yield Row(f"generate, nothing changed ({count} recipes)", "cp -r", ours, theirs, 5.0, "lower")


def _start_up() -> float:
    """Seconds until a new process could begin to generate."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import torchsmith.cli.parser, torchsmith.workspace.write"], check=True
    )
    return time.perf_counter() - start


def _unchanged(request: ApplyRequest) -> None:
    report = apply(request)
    assert not report.pending
