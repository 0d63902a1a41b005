"""How numbers and times are said."""

from __future__ import annotations

import pytest

from torchsmith.core.text import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.4, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (7510, "2 h 05 min"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
