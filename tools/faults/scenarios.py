"""What is tried: each writing verb, in a workspace where it has something to write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.building.conftest import CELL, CONF, MINI, SMALL, TOML, nix_variables
from torchsmith.nix.hashes import PLACEHOLDER

RECIPES = Path(__file__).parents[2] / "tests/edit/by-hand"
BY_HAND = ("pytorch-python313-cuda13_0-sm120-avx512.nix",)
LINES = f'["2.10".hashes]\npytorch = "{PLACEHOLDER}"\ntorchvision = ""\n'


@dataclass(frozen=True)
class Scenario:
    """A verb, the words after it, and what is done to a generated workspace before it."""

    verb: str
    words: tuple[str, ...]
    prepare: Callable[[Path], None]

    @property
    def exact(self) -> bool:
        """Whether every file of the workspace is known beforehand; a build writes times and its store."""
        return self.verb != "build"


def environment(folder: Path) -> dict[str, str]:
    """Nix with a store of its own and the miniature nixpkgs; no git settings of a user."""
    store = folder / "nix"
    (store / "conf").mkdir(parents=True, exist_ok=True)
    (store / "conf/nix.conf").write_text(CONF)
    date = "2026-01-01T00:00:00Z"
    return {
        **os.environ,
        **nix_variables(store),
        "TORCHSMITH_CACHE": str(folder / "cache"),
        "TORCHSMITH_NIXPKGS": str(MINI),
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.c",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
    }


def torchsmith(words: tuple[str, ...], root: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A run without faults."""
    return subprocess.run(
        [sys.executable, "-m", "torchsmith", *words],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def base(folder: Path, env: dict[str, str]) -> Path:
    """A small generated workspace, committed."""
    root = folder / "base"
    (root / "catalog").mkdir(parents=True)
    (root / "torchsmith.toml").write_text(TOML)
    (root / "catalog/estimates.toml").write_text(SMALL)
    done = torchsmith(("apply",), root, env)
    assert done.returncode == 0, done.stderr
    return root


def _more_packages(root: Path) -> None:
    (root / "torchsmith.toml").write_text(TOML.replace('"torchvision"]', '"torchvision", "torchaudio"]'))


def _unlearn(root: Path) -> None:
    (root / "catalog/lines.toml").write_text(LINES)
    done = torchsmith(("apply",), root, dict(os.environ))
    assert done.returncode == 0, done.stderr


def _own_recipes(root: Path) -> None:
    """Recipes of another hand, in a notation that has a safe fix."""
    pkgs = root / "build-pytorch/.flox/pkgs"
    for made in pkgs.glob("*.nix"):
        made.unlink()
    for name in BY_HAND:
        text = (RECIPES / name).read_text()
        (pkgs / name).write_text(text.replace('gpuArchSM = "12.0"', 'gpuArchSM = "sm_120"'))
    (root / "torchsmith.toml").unlink()
    shutil.rmtree(root / ".torchsmith", ignore_errors=True)


def _missing(root: Path) -> None:
    pkgs = root / "build-torchvision/.flox/pkgs"
    (pkgs / f"torchvision-{CELL}.nix").rename(pkgs / "torchvision-python313-cpu-avx2.nix")


def _nothing(root: Path) -> None:
    pass


SCENARIOS = (
    Scenario("init", ("init", "new"), _nothing),
    Scenario("apply", ("apply",), _more_packages),
    Scenario("apply --commit", ("apply", "--commit", "--allow-dirty"), _more_packages),
    Scenario("line update", ("line", "update", "2.10", "--rev", "0" * 39 + "1"), _nothing),
    Scenario("fix-hashes", ("fix-hashes",), _unlearn),
    Scenario("audit --fix", ("audit", ".", "--fix"), _own_recipes),
    Scenario("align --create", ("align", "build-pytorch", "build-torchvision", "--create"), _missing),
    Scenario("build", ("build", "--local"), _nothing),
)
