"""A torch release in one command: the newest nixpkgs of a channel, from a server on this machine."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.nix.conftest import MINI
from tests.nix.world import World, serving
from torchsmith.catalog import builtin_catalog
from torchsmith.core.toml import read_table
from torchsmith.edit.python_index import PublishedWheel

pytestmark = pytest.mark.needs("nix")
NAME, TORCH, NEXT = "2.90", "2.90.1", "2.90.2"  # no catalog knows them
TOML = """format = 1
[[matrix]]
python = ["3.13"]
cuda = ["cpu"]
isa = ["{isa}"]
[sources]
nixpkgs = "{remote}"
archive = "{archive}"
"""


def nixpkgs(folder: Path, torch: str) -> Path:
    """The miniature nixpkgs in today's shape, with a torch release of its own."""
    shutil.copytree(MINI, folder)
    for name, old, new in (
        ("default.nix", 'release ? "6a030d5"', 'release ? "2026-11"'),
        ("releases.nix", 'torch = "2.14.1"', f'torch = "{torch}"'),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    trees = tmp_path_factory.mktemp("trees")
    with serving(tmp_path_factory.mktemp("world")) as served:
        served.commit(nixpkgs(trees / "first", TORCH))
        yield served


@pytest.fixture
def place(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that asks the server, with a store of its own."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in {
        "STORE_DIR": "store",
        "STATE_DIR": "var",
        "LOG_DIR": "log",
        "CONF_DIR": "conf",
    }.items():
        monkeypatch.setenv(f"NIX_{name}", str(tmp_path / folder))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/nix.conf").write_text("sandbox = false\nbuild-users-group =\nsubstitute = false\n")
    root = tmp_path / "builds"
    root.mkdir()
    isa = "avx2" if os.uname().machine == "x86_64" else "armv8_2"
    (root / "torchsmith.toml").write_text(TOML.format(isa=isa, remote=world.remote, archive=world.archive))
    return root


def written(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def pins(root: Path) -> dict[str, dict[str, object]]:
    return read_table((root / "catalog/pins.toml").read_text(), "pins.toml")


def test_a_release_that_no_catalog_knows_is_added_built_and_updated(
    place: Path, world: World, tmp_path: Path, call: Call
) -> None:
    assert NAME not in builtin_catalog().lines
    first = world.revisions[-1]
    added = call("line", "add", NAME, "-w", place)
    assert added.code == 0, added.err
    assert "first download is trusted" in added.err
    [pin] = pins(place).values()
    assert (pin["rev"], pin["torch"]) == (first, TORCH)
    file = place / "torchsmith.toml"
    file.write_text(file.read_text().replace("[[matrix]]", f'[[matrix]]\nline = "{NAME}"'))
    assert call("apply", "-w", place, "--no-git").code == 0
    recipe = next(place.glob("build-pytorch/.flox/pkgs/*.nix")).read_text()
    assert f"NixOS/nixpkgs/archive/{first}.tar.gz" in recipe, "recipes keep the canonical address"
    assert f'sha256 = "{pin["sha256"]}"' in recipe
    evaluated = call("eval", "-w", place, "pytorch")
    assert evaluated.code == 0, evaluated.err + evaluated.out

    before = written(place)
    second = world.commit(nixpkgs(tmp_path / "second", NEXT))
    shown = call("line", "update", NAME, "-w", place, "--dry-run")
    assert shown.code == 0, shown.err
    assert written(place) == before
    assert call("line", "update", NAME, "-w", place).code == 0
    assert {entry["rev"] for entry in pins(place).values()} == {first, second}
    assert f"archive/{second}.tar.gz" in next(place.glob("build-pytorch/.flox/pkgs/*.nix")).read_text()
    world.commit(nixpkgs(tmp_path / "again", TORCH))


def test_a_channel_with_another_torch_is_said_and_its_line_offered(place: Path, call: Call) -> None:
    before = written(place)
    refused = call("line", "add", "2.91", "-w", place)
    assert (refused.code, refused.error) == (2, "not-found")
    assert f"torch {TORCH}" in refused.err
    assert f"line add {NAME}" in refused.err
    assert written(place) == before


def test_without_a_server_nothing_is_written_and_the_answer_comes_at_once(place: Path, call: Call) -> None:
    file = place / "torchsmith.toml"
    text = file.read_text()
    file.write_text(text.replace("127.0.0.1:", "127.0.0.1:1/"))
    before, began = written(place), time.monotonic()
    refused = call("line", "add", NAME, "-w", place)
    assert (refused.code, refused.error) == (3, "missing-requirement")
    assert time.monotonic() - began < 5
    assert written(place) == before


def test_an_archive_that_changed_is_refused(place: Path, world: World, call: Call, tmp_path: Path) -> None:
    rev, file = world.revisions[-1], place / "torchsmith.toml"
    assert call("line", "add", NAME, "-w", place).code == 0
    recorded = str(next(iter(pins(place).values()))["sha256"])
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(file, other)
    world.pack(rev, nixpkgs(tmp_path / "changed", "2.90.7"))
    before = written(other)
    refused = call("line", "add", NAME, "-w", other, "--rev", rev, "--sha256", recorded)
    world.pack(rev, nixpkgs(tmp_path / "right", TORCH))
    assert (refused.code, refused.error) == (2, "conflict")
    assert written(other) == before


def test_what_is_newest_is_asked_of_the_index_and_the_channel(
    place: Path, world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        "torch": PublishedWheel("torch", "2.99.0"),
        "torchvision": PublishedWheel("torchvision", "0.9", "==2.99.0"),
    }
    monkeypatch.setattr("torchsmith.edit.python_index.newest", lambda packages, index: found)
    listed = call("line", "list", "-w", place, "--online", "--json")
    assert listed.code == 0, listed.err
    newest = json.loads(listed.out)["newest"]
    assert newest["rev"] == world.revisions[-1]
    assert [(row["package"], row["version"]) for row in newest["index"]] == [
        ("torch", "2.99.0"),
        ("torchvision", "0.9"),
    ]
    assert "torchsmith line add 2.99" in call("line", "list", "-w", place, "--online").err
