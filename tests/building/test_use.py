"""What a repository's default.nix offers besides recipes, really built: an environment, a shell, an image."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.building.conftest import CELL, MINI, Place

pytestmark = pytest.mark.needs("nix")


def nix_build(place: Place, attribute: str) -> Path:
    repo = place.root / "build-torchvision"
    words = [
        "nix-build",
        str(repo),
        "--no-out-link",
        "--arg",
        "torchsmithNixpkgs",
        str(MINI),
        "-A",
        attribute,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(done.stdout.strip())


@pytest.mark.usefixtures("nix_here")
def test_an_environments_python_imports_every_package_of_the_cell(place: Place) -> None:
    python = nix_build(place, f'environments."{CELL}"') / "bin/python3"
    done = subprocess.run(
        [python, "-B", "-c", "import torch, torchvision; print(torch.__version__, torchvision.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["2.10.0", "0.25.0"], done.stderr


@pytest.mark.usefixtures("nix_here")
def test_an_image_holds_the_cell_once_and_says_where_the_driver_is(place: Place) -> None:
    program = nix_build(place, f'images."{CELL}"')
    written = subprocess.run([program], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(written)) as image:
        files = {name: image.extractfile(name).read() for name in image.getnames()}  # type: ignore[union-attr]
    [manifest] = json.loads(files["manifest.json"])
    assert manifest["RepoTags"] == [f"torchvision:{CELL}"]
    config = json.loads(files[manifest["Config"]])["config"]
    assert any(one.startswith("LD_LIBRARY_PATH=/usr/lib64:") for one in config["Env"])
    with tarfile.open(fileobj=io.BytesIO(files[manifest["Layers"][0]])) as layer:
        inside = layer.getnames()
    assert config["Cmd"][0].lstrip("/") in inside
    torches = {name for name in inside if name.endswith("/site-packages/torch")}
    assert len(torches) == 1


@pytest.mark.usefixtures("nix_here")
def test_a_shell_has_the_environment_on_its_path(place: Place) -> None:
    repo = f"(import {place.root / 'build-torchvision'} {{ torchsmithNixpkgs = {MINI}; }})"
    ask = (
        f'with {repo}; map toString shells."{CELL}".nativeBuildInputs == [ (toString environments."{CELL}") ]'
    )
    done = subprocess.run(
        ["nix-instantiate", "--eval", "-E", ask], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "true", done.stderr[-2000:]
