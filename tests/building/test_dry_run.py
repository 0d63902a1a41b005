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
