"""Workspaces to look at, and real Nix to evaluate them against the miniature nixpkgs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchsmith.cli.samples import HERE
from torchsmith.core.process import run
from torchsmith.verbs.apply import ApplyRequest, apply

MINI = HERE / "nixpkgs"
PLAN = 'format = 1\nprofile = "seed"\ncudatoolkit = ["13.0"]\n'
Make = Callable[[str], Path]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Generate the workspace of a torchsmith.toml; the same text gives the same folder."""
    made: dict[str, Path] = {}

    def generated(text: str) -> Path:
        if text not in made:
            made[text] = tmp_path_factory.mktemp("workspace")
            (made[text] / "torchsmith.toml").write_text(text)
            report = apply(ApplyRequest(workspace=made[text]))
            assert not report.skipped
        return made[text]

    return generated


@pytest.fixture(scope="session")
def plan(make: Make) -> Path:
    """The default workspace."""
    return make(PLAN)


Evaluate = Callable[..., Any]


@pytest.fixture(scope="session")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """Ask real Nix for a value; `expression` sees `mini`, the miniature nixpkgs, and `at`, its other pins."""
    store = tmp_path_factory.mktemp("store")

    def asked(expression: str, tree: str = "") -> Any:
        text = f"let mini = {MINI / tree if tree else MINI}; in {expression}"
        argv = ["nix-instantiate", "--eval", "--strict", "--json", "--read-write-mode", "--store"]
        done = run([*argv, f"local?root={store}", "-E", text], timeout=600)
        assert done.ok, done.stderr[-3000:]
        return json.loads(done.stdout)

    return asked
