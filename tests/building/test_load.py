"""A small farm under load: real ssh and builds, builders that die; `make load` does it with a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.load.farm import run
from tools.load.reckon import Load


@pytest.mark.needs("nix", "ssh")
@pytest.mark.long
def test_builders_that_die_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, Load(40, 4, seconds=0.5, every=(1.0, 2.0), down=(0.5, 2.0)))
    assert result.faults == []
    assert result.killed >= 3
