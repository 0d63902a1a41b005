"""A dry run waits for no cache that does not answer; a build asks again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.building.conftest import Place
from tests.cli.conftest import Call
from torchsmith.building import plan
from torchsmith.nix.store import DryRun, StoreOptions, dry_run
from torchsmith.nix.tool import Nix


@pytest.mark.needs("nix")
def test_a_dry_run_asks_each_cache_once(
    place: Place, nix_here: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[StoreOptions] = []

    def noted(nix: Nix, derivations: Sequence[str], options: StoreOptions) -> DryRun:
        asked.append(options)
        return dry_run(nix, derivations, options)

    monkeypatch.setattr(plan, "dry_run", noted)
    assert call(*place.words("build", "--dry-run", place.torch)).code == 0
    assert ("download-attempts", "1") in asked[0].extra
    assert call(*place.words("build", place.torch)).code == 0
    assert asked[-1].extra == ()


@pytest.mark.needs("nix")
def test_recipes_without_their_nixpkgs_are_one_line_with_what_helps(
    nix_here: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHSMITH_NIXPKGS", raising=False)
    asked = 'format = 1\npackages = ["pytorch"]\n[[matrix]]\npython = ["3.13"]\ncuda = ["cpu"]\n'
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    (tmp_path / "torchsmith.toml").write_text(f'{asked}isa = ["avx2", "avx512"]\n')
    assert call("apply", "--no-git", "-w", tmp_path).code == 0
    (tmp_path / "build-pytorch/.flox/pkgs/mine.nix").write_text('{ }: throw "no"\n')
    for words in (("build", "--dry-run"), ("fix-hashes", "--dry-run")):
        refused = call(*words, "-w", tmp_path)
        assert refused.code == 1
        said = (refused.out + refused.err).splitlines()
        assert sum("cannot download" in line for line in said) == 1
        assert sum("--nixpkgs PATH" in line for line in said) == 1
        assert "next:" not in refused.err
    counts = call("build", "--dry-run", "-w", tmp_path).out.splitlines()
    assert "3 recipes: 0 to build, 0 in the store, 0 in a binary cache, 3 do not evaluate" in counts
