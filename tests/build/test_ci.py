"""Workflows and jobsets are valid for those who read them, and hold every cell."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.build.conftest import MINI, Place
from tests.cli.conftest import Call
from torchsmith.edge.process import run


def test_the_github_workflow_is_valid_and_has_every_cell(call: Call) -> None:
    workflow = yaml.safe_load(call("ci", "github").out)
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    jsonschema.Draft7Validator(json.loads(text)).validate(
        {"on" if key is True else key: value for key, value in workflow.items()}
    )
    rows = workflow["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert len(rows) == 44
    assert sum(len(row["names"].split()) for row in rows) == 132
    assert {row["arch"] for row in rows} == {"X64", "ARM64"}
    assert all(row["names"].split()[0].startswith("pytorch-") for row in rows)


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
    assert (refused.code, "are more than GitHub takes (256)" in refused.err) == (2, True)
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
