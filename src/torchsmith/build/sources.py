"""What recipes are at the moment when they are built, by which a later change is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.nix.readable import root_of
from torchsmith.nix.sources import source_hash
from torchsmith.record import Built
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.git import head


def sources_now(recipes: Sequence[RecipeFile]) -> dict[str, Built]:
    """Recipes before they are built: what changes while they build was not built."""
    revisions: dict[Path, str] = {}
    found = {}
    for recipe in recipes:
        root = root_of(recipe.path)
        if root not in revisions:
            revisions[root] = head(root)
        built = Built(name=recipe.name, source=source_hash(recipe.path), revision=revisions[root], outputs=())
        found[recipe.name] = built
    return found
