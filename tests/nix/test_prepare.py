"""Which recipes can be evaluated without anything being passed to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.nix.prepare import _all_defaulted
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
