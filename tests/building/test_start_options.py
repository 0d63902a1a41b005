"""How Nix is asked to build, beyond the user's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.building.start import BuildSpec, _store_options
from torchsmith.nix.store import StoreOptions, cache_address, read_dry_run, realise_command
from torchsmith.nix.tool import Nix
from torchsmith.verbs.build import BuildRequest


@pytest.mark.parametrize(("small", "store"), [(True, "local?root=/s"), (True, ""), (False, "local?root=/s")])
def test_the_sample_sees_the_machine_s_compiler_in_a_store_of_our_own(small: bool, store: str) -> None:
    options = _store_options(Nix(Path("/usr/bin/nix-instantiate"), (2, 8), store), BuildSpec(small=small))
    assert ("extra-sandbox-paths" in options.arguments()) is (small and bool(store))


def test_trees_are_recorded_as_a_later_command_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.chdir(tmp_path)
    words = [str(tmp_path / "tree"), f"{'a' * 40}={tmp_path / 'tree'}"]
    assert BuildRequest(nixpkgs=("tree", f"{'a' * 40}=tree")).spec.nixpkgs == words
    assert BuildRequest(nixpkgs=("sample",)).spec.nixpkgs == ["sample"]


def test_results_are_verified_only_if_that_is_asked_for() -> None:
    assert not BuildRequest().spec.verify
    assert BuildRequest(verify=True).spec.verify


def test_what_is_built_as_one_ends_at_its_first_failure_unless_it_is_to_go_on() -> None:
    nix = Nix(Path("/usr/bin/nix-instantiate"), (2, 8))
    assert "--keep-going" not in realise_command(nix, ["/a.drv", "/b.drv"], StoreOptions())
    assert "--keep-going" in realise_command(nix, ["/a.drv", "/b.drv"], StoreOptions(), keep_going=True)


def test_a_cache_that_signs_keeps_its_own_options() -> None:
    plain, compressed = "file:///c", "file:///c?compression=none"
    assert cache_address(compressed, None) == compressed
    assert cache_address(plain, Path("/k")) == "file:///c?secret-key=/k"
    assert cache_address(compressed, Path("/k")) == "file:///c?compression=none&secret-key=/k"


def test_what_nix_would_fetch_is_measured() -> None:
    found = read_dry_run(
        "this derivation will be built:\n  /nix/store/a.drv\n"
        "these 2 paths will be fetched (1.50 GiB download, 6.00 GiB unpacked):\n"
        "  /nix/store/b\n  /nix/store/c\n"
    )
    assert (len(found.build), len(found.fetch), found.download_mib) == (1, 2, 1536.0)
