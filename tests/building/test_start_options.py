"""How Nix is asked to build, beyond the user's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.building.start import BuildSpec, _store_options
from torchsmith.nix.tool import Nix


@pytest.mark.parametrize(("small", "store"), [(True, "local?root=/s"), (True, ""), (False, "local?root=/s")])
def test_the_sample_sees_the_machine_s_compiler_in_a_store_of_our_own(small: bool, store: str) -> None:
    options = _store_options(Nix(Path("/usr/bin/nix-instantiate"), (2, 8), store), BuildSpec(small=small))
    assert ("extra-sandbox-paths" in options.arguments()) is (small and bool(store))
