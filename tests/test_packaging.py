"""torchsmith as others take it: a wheel with its data, an sdist that builds it, and a Nix package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from torchsmith import __version__
from torchsmith.catalog import builtin_catalog

ROOT = Path(__file__).parent.parent


def test_no_folder_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    folders = {part for file in files for part in file.relative_to(ROOT).parent.parts}
    assert "building" in folders
    skipped = pytestconfig.getini("norecursedirs")
    assert not [name for name in folders if any(fnmatch(name, pattern) for pattern in skipped)]


def test_every_dependency_has_its_reason_in_contributing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *(one for part in ("fleet", "docs") for one in optional[part]),
    ]
    names = {re.split(r"[<>=;\[ ]", one)[0] for one in asked}
    _, page = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies")
    assert names == set(re.findall(r"^\| ([a-z][a-z0-9.-]+) \| (?!why)", page, re.MULTILINE))


@pytest.mark.long
def test_the_sdist_builds_the_wheel_and_the_wheel_has_every_file(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    again = tmp_path / "again"
    subprocess.run([sys.executable, "-m", "build", "--outdir", again, ROOT], check=True, capture_output=True)
    assert [(again / one.name).read_bytes() == one.read_bytes() for one in (wheel, sdist)] == [True, True]
    assert wheel.name == f"torchsmith-{__version__}-py3-none-any.whl"
    held = set(zipfile.ZipFile(wheel).namelist())
    src = ROOT / "src"
    ours = [path for path in src.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(src)) for path in ours} <= held
    assert "torchsmith/cli/samples/nixpkgs/default.nix" in held
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= held
    assert not [name for name in held if name.startswith("tests")]


def test_the_changelog_begins_with_this_version() -> None:
    heading = re.search(
        r"^## (\S+), (not released|[\d-]{10})$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert heading is not None
    assert heading[1] == __version__
    assert ("dev" in heading[1]) == (heading[2] == "not released")


@pytest.mark.needs("nix")
@pytest.mark.parametrize("file", ["flake.nix", "package.nix", "default.nix"])
def test_the_nix_files_parse(file: str) -> None:
    env = {**os.environ, "NIX_REMOTE": "dummy://"}  # parsing needs no store, nor the right to use one
    subprocess.run(["nix-instantiate", "--parse", ROOT / file], check=True, capture_output=True, env=env)


@pytest.mark.needs("nix")
def test_the_nix_package_evaluates_and_names_every_dependency(tmp_path: Path) -> None:
    """With stand-ins for nixpkgs' functions: what it asks for is what pyproject.toml asks for."""
    expression = f"""
      let
        names = builtins.listToAttrs (map (name: {{ inherit name; value = name; }})
          [ "backports-zstd" "hatchling" "highspy" "msgspec" "tomlkit" "tree-sitter" ]);
        grammars = {{ tree-sitter-nix = "tree-sitter-nix"; tree-sitter-toml = "tree-sitter-toml"; }};
      in (import {ROOT}/package.nix {{
        lib = {{
          fileset = {{ toSource = x: x.fileset; unions = x: x; }};
          licenses.asl20 = "asl20"; platforms.linux = []; makeBinPath = _: "git";
        }};
        python3Packages = names // {{
          tree-sitter-grammars = grammars; buildPythonApplication = x: x; buildPythonPackage = x: x.pname;
        }};
        stdenv.hostPlatform = {{ system = "x86_64-linux"; parsed.cpu.name = "x86_64"; }};
        stdenv.cc.cc.lib = "";
        autoPatchelfHook = "";
        makeWrapper = "makeWrapper"; git = "git";
      }})
    """
    told = "[ p.version ] ++ p.dependencies ++ map toString p.src"
    ask = f'let p = {expression}; in builtins.concatStringsSep " " ({told})'
    done = subprocess.run(
        ["nix-instantiate", "--store", f"local?root={tmp_path}", "--eval", "-E", ask],
        capture_output=True,
        text=True,
        check=True,
    )
    version, *words = done.stdout.strip().strip('"').split()
    assert version == __version__
    held = [Path(word) for word in words if word.startswith("/")]
    assert ROOT / "src" in held
    assert not [path for path in (ROOT / "src").rglob("*") if path.is_symlink()], "archives may drop links"
    dependencies = [word for word in words if not word.startswith("/")]
    wanted = {re.split("[<>=]", line.split('"')[1])[0].replace(".", "-") for line in _dependencies()}
    # pip cannot add an extra to what Nix installed: highspy is part of the package there.
    assert sorted(dependencies) == sorted({*wanted, "highspy"})


def _dependencies() -> list[str]:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") :].split("]")[0]
    return [line for line in block.splitlines() if line.strip().startswith('"')]


def workflow_of(text: str) -> dict[str, Any]:
    """A workflow that follows GitHub's schema, and whose actions of the catalog have its commits."""
    workflow = {"on" if key is True else key: value for key, value in yaml.safe_load(text).items()}
    schema = files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    jsonschema.Draft7Validator(json.loads(schema)).validate(workflow)
    pinned = {action.repo: action.commit for action in builtin_catalog().actions.values()}
    for name, commit in re.findall(r"uses: ([^.\s]\S*)@(\w+)", text):
        assert commit == pinned.get(name, commit)
        assert re.fullmatch("[0-9a-f]{40}", commit)
    return workflow


def test_each_change_and_each_release_is_tested() -> None:
    workflow = workflow_of((ROOT / ".github/workflows/test.yml").read_text())
    assert workflow["jobs"]["test"]["steps"][-1] == {"run": ".ci/run"}
    assert {"pull_request", "workflow_call"} <= {*workflow["on"]}


def test_a_tag_tests_builds_checks_attests_and_publishes_without_a_stored_secret() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    workflow = workflow_of(text)
    assert workflow["jobs"]["test"]["uses"] == "./.github/workflows/test.yml"
    assert (workflow["on"], workflow["permissions"]) == ({"push": {"tags": ["v*"]}}, {})
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert build["permissions"] == {"contents": "read"}
    assert (build["needs"], publish["needs"]) == ("test", "build")
    assert publish["permissions"]["id-token"] == "write"
    used = [step["uses"].partition("@") for step in publish["steps"]]
    assert [name for name, _, _ in used][1:] == [
        "actions/attest-build-provenance",
        "pypa/gh-action-pypi-publish",
    ]
    assert "secrets." not in text


def test_the_container_installs_extras_that_exist_from_files_that_it_copies() -> None:
    text = (ROOT / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"'/src\[(.*)\]'", text)
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert {*project["license-files"], "pyproject.toml", "src"} == {*copied}
    assert all((ROOT / name).exists() for name in copied)
