"""Secrets of the environment, kept out of everything that is written down."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

NAMES = re.compile(r"TOKEN|SECRET|PASSW(OR)?D|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
MIN_SECRET_LENGTH = 6  # a shorter value would blank ordinary words
Redact = Callable[[str], str]


def redactor(env: Mapping[str, str] | None = None) -> Redact:
    """A function that replaces every secret value of the environment by its variable's name."""
    named = (
        (name, value) for name, value in (os.environ if env is None else env).items() if NAMES.search(name)
    )
    secrets = {value: name for name, value in named if len(value) >= MIN_SECRET_LENGTH}
    longest_first = sorted(secrets, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in longest_first:
            if value in text:
                text = text.replace(value, f"[{secrets[value]}]")
        return text

    return redact
