"""Recipes before they are evaluated: what has to be passed to them, and what they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.nix.prepare import _all_defaulted, source_hash
from torchsmith.recipe.read import read_text_as_recipe


@pytest.mark.parametrize(
    ("text", "defaulted"),
    [
        ("1", True),
        ("{ }: 1", True),
        ("{ pkgs ? 1 }: pkgs", True),
        ("{ pkgs ? 1, torch }: pkgs", False),
        ("arguments: arguments.pkgs", False),
    ],
)
def test_a_recipe_is_called_with_nothing_where_all_of_its_arguments_have_defaults(
    text: str, defaulted: bool
) -> None:
    assert _all_defaulted(read_text_as_recipe(text.encode(), Path("x.nix")).syntax) is defaulted


def test_the_hash_of_a_recipe_covers_what_files_in_a_shared_import_read(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.nix"
    recipe.write_text("let pkgs = import (fetchTarball (import ./pin.nix)) { }; in pkgs.hello\n")
    (tmp_path / "pin.nix").write_text("import ./address.nix\n")
    hashes = set()
    for address in ("one", "two"):
        (tmp_path / "address.nix").write_text(f'"https://example.org/{address}.tar.gz"\n')
        hashes.add(source_hash(recipe))
    assert len(hashes) == 2
