"""Workflows and jobsets are valid for those who read them, and hold every cell."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.building.conftest import MINI, Place
from tests.cli.conftest import Call
from torchsmith.core.process import run
from torchsmith.core.state import state_folder
from torchsmith.verbs.ci import COMMANDS

ADDRESS = "git+https://example.org/torchsmith@0123456789abcdef"
CI = f'[ci]\ntorchsmith = "{ADDRESS}"\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The default matrix in a workspace that says where torchsmith comes from."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "torchsmith.toml").write_text('format = 1\nprofile = "real"\n' + CI)
    return folder


@pytest.fixture
def workflow(call: Call, workspace: Path) -> Any:
    """The workflow of that workspace, read as GitHub reads it."""
    return yaml.safe_load(call("ci", "github", "-w", workspace).out)


def scripts(job: Mapping[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_github_workflow_is_valid_and_has_every_cell(workflow: Any) -> None:
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    jsonschema.Draft7Validator(json.loads(text)).validate(
        {"on" if key is True else key: value for key, value in workflow.items()}
    )
    rows = workflow["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert len(rows) == 36
    assert sum(len(row["names"].split()) for row in rows) == 108
    assert {row["arch"] for row in rows} == {"X64", "ARM64"}
    assert all(row["names"].split()[0].startswith("pytorch-") for row in rows)


def test_the_github_workflow_trusts_nobody_more_than_it_must(workflow: Any) -> None:
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)
        [checkout] = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
        assert checkout["with"]["persist-credentials"] is False
        assert not [script for script in scripts(job) if "${{" in script], "nothing is pasted into a shell"
        assert f"pip install '{ADDRESS}'" in scripts(job)
    assert workflow["jobs"]["build"]["needs"] == "audit"


def test_the_example_of_ci_github_makes_the_folder_that_it_writes_to(workspace: Path) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = run(["bash", "-e", "-c", COMMANDS["github"][1]], cwd=workspace, env=env, timeout=60)
    assert done.ok, done.stderr
    assert yaml.safe_load((workspace / ".github/workflows/torchsmith.yml").read_text())["jobs"]


@pytest.mark.parametrize("words", [("github",), ("hydra",)])
def test_without_a_workspace_there_is_nothing_to_write_down(
    words: tuple[str, ...], tmp_path: Path, call: Call
) -> None:
    refused = call("ci", *words, cwd=tmp_path)
    assert (refused.code, refused.error, refused.out) == (2, "not-found", "")


def test_a_workflow_that_could_not_install_torchsmith_is_not_written(workspace: Path, call: Call) -> None:
    file = workspace / "torchsmith.toml"
    text = file.read_text()
    file.write_text(text.replace(CI, ""))
    refused = call("ci", "github", "-w", workspace)
    assert (refused.code, refused.error) == (2, "incomplete")
    _, _, lines = refused.err.partition("[ci]\n")
    file.write_text(f"{text.replace(CI, '')}\n[ci]\n{lines}")
    assert call("ci", "github", "-w", workspace).code == 0, "the lines of the hint are enough"
    file.write_text(text.replace(ADDRESS, "wheels/torchsmith.whl"))
    missing = call("ci", "github", "-w", workspace)
    assert missing.error == "not-found"
    assert f"-w {workspace}/wheels " in missing.err
    (workspace / "wheels").mkdir()
    (workspace / "wheels/torchsmith.whl").touch()
    assert "pip install 'wheels/torchsmith.whl'" in call("ci", "github", "-w", workspace).out


def test_a_workspace_below_its_repository_is_where_the_steps_run(workspace: Path, call: Call) -> None:
    repository = workspace.parent
    run(["git", "init", "--quiet", str(repository)], timeout=60)
    workflow = yaml.safe_load(call("ci", "github", "-w", workspace).out)
    assert workflow["name"] == "torchsmith-repository"
    assert workflow["defaults"]["run"]["working-directory"] == "repository"
    steps = workflow["jobs"]["build"]["steps"]
    [state] = [step["env"]["TORCHSMITH_STATE"] for step in steps if "env" in step]
    [logs] = [step["with"]["path"] for step in steps if "path" in step.get("with", {})]
    assert logs == f"{state}/workspaces/*/logs"


def test_the_name_of_a_folder_is_no_expression_and_no_part_of_the_template(
    workspace: Path, call: Call
) -> None:
    run(["git", "init", "--quiet", str(workspace.parent)], timeout=60)
    folder = workspace.rename(workspace.parent / "a ${{ github.token }} @ROWS@ 'b\"")
    text = call("ci", "github", "-w", folder).out
    place = yaml.safe_load(text)["defaults"]["run"]["working-directory"]
    assert place == "a ${{ '${{' }} github.token }} @ROWS@ 'b\""


@pytest.mark.needs("nix")
def test_every_step_of_the_workflow_works_as_it_is_written(place: Place, nix_here: Path, call: Call) -> None:
    """All but the installation: in a checkout of torchsmith.toml alone, as a runner has it."""
    (place.root / "torchsmith.toml").write_text((place.root / "torchsmith.toml").read_text() + CI)
    jobs = yaml.safe_load(call(*place.words("ci", "github")).out)["jobs"]
    for repository in place.root.glob("build-*"):
        shutil.rmtree(repository)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    [row] = jobs["build"]["strategy"]["matrix"]["include"]
    env = {**os.environ, "PATH": programs, "NAMES": row["names"], "CACHE": "", "SIGNING_KEY": ""}
    steps = [script for job in jobs.values() for script in scripts(job) if not script.startswith("pip ")]
    assert len(steps) == 4
    for script in steps:
        done = run(["bash", "-e", "-c", script], cwd=place.root, env=env, timeout=240)
        assert done.ok, (script, done.stdout, done.stderr)
    assert (state_folder(place.root) / "results" / place.vision).exists()


def test_a_pull_request_is_audited_not_built_and_fails_on_stale_recipes(workspace: Path, call: Call) -> None:
    run(["git", "init", "--quiet", str(workspace)], timeout=60)
    file = workspace / "torchsmith.toml"
    file.write_text(file.read_text().replace("real", "seed"))
    assert call("apply", "-w", workspace).code == 0
    workflow = yaml.safe_load(call("ci", "github", "-w", workspace).out)
    jobs = workflow["jobs"]
    assert "pull_request" in workflow[True]  # what YAML reads `on` as
    assert jobs["build"]["if"] == "github.event_name != 'pull_request'"
    assert "if" not in jobs["audit"]
    _, recipes, _ = scripts(jobs["audit"])
    assert recipes in scripts(jobs["build"])
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert run(["bash", "-e", "-c", recipes], cwd=workspace, env=env, timeout=60).ok
    stale = next(workspace.glob("build-pytorch/.flox/pkgs/*.nix"))
    stale.unlink()
    done = run(["bash", "-e", "-c", recipes], cwd=workspace, env=env, timeout=60)
    assert (done.code, stale.exists()) == (1, False)
    assert "next: torchsmith apply\n" in done.stderr


@pytest.mark.parametrize("ends", ["exit 0", "exit 1", "kill -TERM $PPID; sleep 0.2"])
def test_the_signing_key_does_not_outlive_the_step(ends: str, tmp_path: Path, workflow: Any) -> None:
    [build] = [step for step in workflow["jobs"]["build"]["steps"] if step.get("name") == "Build"]
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
    assert (tmp_path / "words").read_text().startswith("build --local --verify a b --cache file:///c --sign ")
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
    (tmp_path / "torchsmith.toml").write_text(TOO_WIDE + CI)
    refused = call("ci", "github", "-w", str(tmp_path))
    assert (refused.code, refused.error, "256" in refused.err) == (2, "too-large", True)
    assert call("ci", "github", "-w", str(tmp_path), "sm120").code == 0


@pytest.mark.needs("nix")
def test_the_hydra_jobset_evaluates_to_every_cell(place: Place, nix_here: Path, call: Call) -> None:
    (place.root / "release.nix").write_text(call(*place.words("ci", "hydra")).out)
    argv = ["nix-instantiate", str(place.root / "release.nix"), "--arg", "torchsmithNixpkgs", str(MINI)]
    done = run(argv, timeout=60)
    assert done.ok, done.stderr
    names = [line for line in done.stdout.splitlines() if line.endswith(".drv")]
    assert len(names) == 2
