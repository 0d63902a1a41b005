"""Secrets, kept out of everything that is written down: values of the environment, and known forms."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

NAMES = re.compile(r"TOKEN|SECRET|PASSW(OR)?D|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
# Tokens of Hugging Face, GitHub, GitLab, npm, Slack, PyPI and AWS.
TOKENS = re.compile(
    r"(?<![0-9A-Za-z])(?:hf_|gh[opsur]_|github_pat_|glpat-|npm_|xox[abprs]-|pypi-|AKIA|ASIA)[0-9A-Za-z_-]{16,}"
)
# What follows these words on a line, and the password of an address.
VALUES = re.compile(
    r"(?<![0-9a-z])(?P<word>passw(?:or)?d|secret_?access_?key|authorization)(?P<quote>[\"']?\s*[:=]\s*)"
    r"(?P<value>(?:bearer |basic |token )?[^\s,;]+)"
    r"|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)",
    re.IGNORECASE,
)
MIN_SECRET_LENGTH = 6  # a shorter value would blank ordinary words
Redact = Callable[[str], str]


def _hidden(match: re.Match[str]) -> str:
    """What is written in place of a match: its beginning, and that there was a secret."""
    return f"{match['user'] or match['word'] + match['quote']}[secret]"


def redactor() -> Redact:
    """A function that replaces every secret value of the environment by its variable's name, and what has
    the form of a token or password."""
    named = {value: name for name, value in os.environ.items() if NAMES.search(name)}
    secrets = {value: named[value] for value in named if len(value) >= MIN_SECRET_LENGTH}
    longest_first = sorted(secrets, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in longest_first:
            if value in text:
                text = text.replace(value, f"[{secrets[value]}]")
        return VALUES.sub(_hidden, TOKENS.sub("[token]", text))

    return redact
