"""Workflows and jobsets are valid for those who read them, and hold every cell."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.building.conftest import MINI, Place
from tests.cli.conftest import Call
from torchsmith import __version__
from torchsmith.core.process import run


def test_the_github_workflow_is_valid_and_has_every_cell(call: Call) -> None:
    workflow = yaml.safe_load(call("ci", "github").out)
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    jsonschema.Draft7Validator(json.loads(text)).validate(
        {"on" if key is True else key: value for key, value in workflow.items()}
    )
    rows = workflow["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert len(rows) == 36
    assert sum(len(row["names"].split()) for row in rows) == 108
    assert {row["arch"] for row in rows} == {"X64", "ARM64"}
    assert all(row["names"].split()[0].startswith("pytorch-") for row in rows)


def test_the_github_workflow_trusts_nobody_more_than_it_must(tmp_path: Path, call: Call) -> None:
    workflow = yaml.safe_load(call("ci", "github").out)
    [job] = workflow["jobs"].values()
    assert (workflow["permissions"], job["permissions"]) == ({}, {"contents": "read"})
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert len(used) == 4
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used)
    [checkout] = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert checkout["with"]["persist-credentials"] is False
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    assert not [script for script in scripts if "${{" in script], "nothing is pasted into a shell"
    assert f"pip install './wheels/torchsmith-{__version__}-py3-none-any.whl'" in scripts
    pinned = "git+https://example.org/torchsmith@0123456789abcdef"
    (tmp_path / "torchsmith.toml").write_text(TOO_WIDE + f'[ci]\ntorchsmith = "{pinned}"\n')
    assert f"pip install '{pinned}'" in call("ci", "github", "-w", str(tmp_path), "sm120").out


@pytest.mark.parametrize("ends", ["exit 0", "exit 1", "kill -TERM $PPID; sleep 0.2"])
def test_the_signing_key_does_not_outlive_the_step(ends: str, tmp_path: Path, call: Call) -> None:
    workflow = yaml.safe_load(call("ci", "github").out)
    [job] = workflow["jobs"].values()
    [build] = [step for step in job["steps"] if step.get("name") == "Build"]
    stand_in = tmp_path / "torchsmith"
    stand_in.write_text(
        f'#!/bin/sh\nprintf "%s" "$*" > {tmp_path}/words; env > {tmp_path}/env\n'
        f'for last; do :; done; cat "$last" > {tmp_path}/seen\n{ends}\n'
    )
    stand_in.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "NAMES": "a b",
        "CACHE": "file:///c",
    }
    run(["bash", "-c", build["run"]], env=env | {"SIGNING_KEY": "key:secret"}, timeout=60)
    assert (tmp_path / "seen").read_text() == "key:secret"
    assert (tmp_path / "words").read_text().startswith("build --local a b --cache file:///c --sign ")
    assert "key:secret" not in (tmp_path / "env").read_text()
    assert not list(tmp_path.glob("tmp.*")), "the key was left behind"


TOO_WIDE = """\
format = 1
profile = "wide"

[[matrix]]
line = "2.10"
python = ["3.12"]
cuda = ["13.0"]
sm = ["sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120"]
isa = ["avx2", "avx512", "avx512bf16", "avx512vnni"]
"""


def test_a_matrix_that_github_would_not_take_is_refused(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOO_WIDE)
    refused = call("ci", "github", "-w", str(tmp_path))
    assert (refused.code, refused.error, "256" in refused.err) == (2, "too-large", True)
    assert call("ci", "github", "-w", str(tmp_path), "sm120").code == 0


@pytest.mark.needs("nix")
def test_the_hydra_jobset_evaluates_to_every_cell(place: Place, nix_here: Path, call: Call) -> None:
    assert call(*place.words("ci", "hydra", "--write")).code == 0
    argv = ["nix-instantiate", str(place.root / "release.nix"), "--arg", "torchsmithNixpkgs", str(MINI)]
    done = run(argv, timeout=60)
    assert done.ok, done.stderr
    names = [line for line in done.stdout.splitlines() if line.endswith(".drv")]
    assert len(names) == 2


def test_the_jobset_describes_itself(call: Call) -> None:
    spec = json.loads(call("ci", "hydra", "--spec", "https://example.invalid/builds.git").out)
    assert spec["nixexprpath"] == "release.nix"
    assert spec["inputs"]["builds"]["value"] == "https://example.invalid/builds.git main"
