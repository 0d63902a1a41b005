"""Auditing: all rules over a thousand recipes, against the maintainers' own three shell checks over the
same files."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import Row, in_turn
from torchsmith.auditing.run import audit
from torchsmith.verbs.apply import ApplyRequest, apply

RECIPES = 1000
# Three patterns in every GPU recipe, one and no CUDA in every CPU recipe, and the old pin nowhere.
CHECKS = r"""
for f in */.flox/pkgs/*-cuda*.nix; do
  count=$(grep -c 'cudaPackages_13\|cuda-13.0-clockrate-fix.patch\|version = "2.10.0"' "$f")
  if [ "$count" -ne 3 ]; then echo "BROKEN: $f (expected 3 patterns, found $count)"; fi
done
for f in */.flox/pkgs/*-cpu-*.nix; do
  count=$(grep -c 'version = "2.10.0"' "$f")
  cuda=$(grep -c 'cudaPackages_13' "$f")
  if [ "$count" -ne 1 ] || [ "$cuda" -ne 0 ]; then echo "BROKEN: $f"; fi
done
grep -l 'fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3' */.flox/pkgs/*.nix
true
"""
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.11", "3.12", "3.13"]
cuda = ["cpu", "12.8", "12.9", "13.0"]
sm = ["sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120"]
isa = ["avx2", "avx512", "avx512vnni", "avx512bf16", "armv8_2", "armv9"]
"""


def rows() -> Iterator[Row]:
    """At most the rival's time."""
    with tempfile.TemporaryDirectory(prefix="torchsmith-bench-") as folder:
        root = Path(folder)
        (root / "torchsmith.toml").write_text(TOML)
        apply(ApplyRequest(workspace=root, git=False))
        recipes = sorted(root.glob("*/.flox/pkgs/*.nix"))
        for extra in recipes[RECIPES:]:
            extra.unlink()
        count = len(recipes[:RECIPES])
        ours, theirs = in_turn(partial(_audit, root), partial(_check, root), repeats=5)
        each = ours.median / count * 1000
        rival = theirs.median / count * 1000
        note = f"{count} recipes, {each:.2f} ms each, against {rival:.2f} ms"
        yield Row("audit: text rules", "three shell checks", ours, theirs, 1.0, "lower", note)


def _audit(root: Path) -> None:
    audit((root,))


def _check(root: Path) -> None:
    subprocess.run(["bash", "-c", CHECKS], cwd=root, check=True, stdout=subprocess.DEVNULL)
