"""How two values of a derivation are told apart."""

from __future__ import annotations

import pytest

from torchsmith.nix.derivation import changed_words


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("1", "2", "1 -> 2"),
        ("-a -b -c -d -e", "-a -b -c -d -f", "without -e, with -f"),
        ("a\nb", "a\nc", "\n    -b\n    +c"),
        ("a", "a\nc", "\n    +c"),
        ("a\nb", "a", "\n    -b"),
    ],
)
def test_short_values_stand_side_by_side_and_long_ones_by_their_lines(
    before: str, after: str, text: str
) -> None:
    assert changed_words(before, after) == text
