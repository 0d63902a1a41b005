"""Values of secret variables are replaced in everything that is written."""

from __future__ import annotations

from torchsmith.core.secrets import redactor


def test_a_secret_that_begins_with_another_is_replaced_whole() -> None:
    redact = redactor({"A_TOKEN": "secret-1", "B_TOKEN": "secret-1-of-two", "PATH": "/usr/bin"})
    assert redact("x secret-1-of-two y secret-1 z /usr/bin") == "x [B_TOKEN] y [A_TOKEN] z /usr/bin"
