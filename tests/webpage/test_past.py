"""What the page says of earlier builds."""

from __future__ import annotations

from pathlib import Path

from torchsmith.catalog import builtin_catalog
from torchsmith.record import Built
from torchsmith.webpage.past import _changed
from torchsmith.workspace.checkout import RecipeFile


def test_a_build_counts_as_long_as_its_recipe_is_the_same_derivation() -> None:
    recipe = RecipeFile("a", Path("a.nix"), Path(), builtin_catalog())
    built = Built(name="a", derivation="/nix/store/a.drv", outputs=())
    assert not _changed(recipe, built, "/nix/store/a.drv")
    assert _changed(recipe, built, "/nix/store/b.drv")
    assert _changed(None, built, "/nix/store/a.drv")
