"""nixpkgs asked of the world: the head of a channel, and its files with their hash in the store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from tests.nix.world import World, serving
from torchsmith.core.problem import Conflict, Invalid, MissingRequirement, NotFound
from torchsmith.nix.channel import Tree, download, head_of
from torchsmith.nix.tool import Nix

pytestmark = pytest.mark.needs("nix")
NOWHERE = "http://127.0.0.1:1/nixpkgs"  # no program listens on this port


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving(tmp_path_factory.mktemp("world")) as served:
        served.commit(MINI)
        yield served


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_the_head_of_a_channel_follows_the_server(world: World) -> None:
    assert head_of("nixos-unstable", world.remote) == world.revisions[-1]
    moved = world.commit(MINI / "lib")
    assert head_of("nixos-unstable", world.remote) == moved
    world.commit(MINI)


@pytest.mark.parametrize("name", ["--upload-pack=x", "a b", "../x", "", "refs/../x"])
def test_what_cannot_be_a_channel_is_not_asked_for(name: str, world: World) -> None:
    with pytest.raises(Invalid):
        head_of(name, world.remote)


def test_a_channel_that_the_server_lacks(world: World) -> None:
    with pytest.raises(NotFound, match="has no channel nixos-24"):
        head_of("nixos-24", world.remote)


def test_files_have_the_store_path_and_the_hash_of_fetch_tarball(world: World, building_nix: Nix) -> None:
    rev = world.revisions[-1]
    tree = download(building_nix, rev, archive=world.archive)
    assert (tree.path / "default.nix").read_text() == (MINI / "default.nix").read_text()
    url = "https://example.invalid/never-asked.tar.gz"
    pinned = f'builtins.fetchTarball {{ url = "{url}"; sha256 = "{tree.sha256}"; }}'
    command = building_nix.command("nix-instantiate", "--eval", "--read-write-mode", "-E", pinned)
    assert str(tree.path) in building_nix.run(command).stdout, "the recipe's own address is not needed"
    assert download(building_nix, rev, archive=world.archive, sha256=tree.sha256) == tree


def test_another_archive_than_before_is_refused(world: World, building_nix: Nix) -> None:
    rev = world.revisions[-1]
    known = download(building_nix, rev, archive=world.archive)
    world.pack(rev, MINI / "lib")
    with pytest.raises(Conflict, match="is not what it was"):
        download(building_nix, rev, archive=world.archive, sha256=known.sha256)
    world.pack(rev, MINI)


def test_links_of_an_archive_lead_nowhere_outside(world: World, building_nix: Nix, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the user")
    rev = world.revisions[-1]
    world.pack(
        rev, MINI, links={"away": str(tmp_path), "away/planted": "x", "up": "../../../../../etc/passwd"}
    )
    try:
        tree: Tree | None = download(building_nix, rev, archive=world.archive)
    except MissingRequirement:
        tree = None  # newer releases of Nix refuse it
    assert sorted(os.listdir(tmp_path)) == ["secret"]
    assert tree is None or not (tree.path / "away/planted").is_file()
    world.pack(rev, MINI)


@pytest.mark.parametrize("remote", [NOWHERE, "http://name.invalid/nixpkgs"])
def test_without_a_network_the_answer_comes_at_once(remote: str, building_nix: Nix) -> None:
    began = time.monotonic()
    with pytest.raises(MissingRequirement, match="cannot be reached"):
        head_of("nixos-unstable", remote)
    with pytest.raises(MissingRequirement, match="cannot download"):
        download(building_nix, "a" * 40, archive=f"{remote}/{{rev}}")
    assert time.monotonic() - began < 5


def test_a_revision_that_the_archive_lacks(world: World, building_nix: Nix) -> None:
    with pytest.raises(MissingRequirement, match="404"):
        download(building_nix, "b" * 40, archive=world.archive)
    with pytest.raises(Invalid):
        download(building_nix, "main", archive=world.archive)


def test_a_slow_server_is_waited_for(world: World, building_nix: Nix) -> None:
    world.slow_seconds = 0.2
    try:
        tree = download(building_nix, world.revisions[-1], archive=world.archive)
    finally:
        world.slow_seconds = 0.0
    assert (tree.path / "default.nix").is_file()
