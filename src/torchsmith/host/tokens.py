"""The patterns of tokens.toml, each compiled when it is first needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from torchsmith.core.toml import read_cached

SERVED = ("x86_64", "aarch64")


@cache
def table() -> dict[str, Any]:
    """All of tokens.toml."""
    return read_cached(Path(__file__).with_name("tokens.toml"))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that ignores case, and in which ^ and $ are the ends of a line."""
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


@cache
def words(kind: str, section: str = "words") -> re.Pattern[str]:
    """A pattern by its section and name; a list is of alternatives."""
    value = table()[section][kind]
    return compiled(value if isinstance(value, str) else "|".join(value))


@cache
def field() -> re.Pattern[str]:
    """A known key, in the group of the fact that it is about, and its value."""
    keys = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in table()["keys"].items())
    return compiled(
        rf"(?:^|(?<=[\s|>*\"'`{{,(\[+-]))(?:{keys})[\"'*`)]*\s*(?:[:=：|]+|\s{{2,}})"
        r"[ \t]*[\"'*`\[]*(?P<value>[^\n]*)"
    )


@cache
def gpu_name() -> re.Pattern[str]:
    """What may be the name of a GPU or its compute capability."""
    names, capability = table()["names"], table()["words"]["capability"]
    return compiled(
        rf"(?<![a-z0-9.])(?:{names['brand']}|{names['model']})(?![a-z0-9.]*[a-z]{{4}})|{capability}"
    )


def matching(section: str, texts: Iterable[str]) -> list[str]:
    """The names of a section whose patterns match in any of the texts."""
    values = list(texts)
    return [name for name in table()[section] if any(words(name, section).search(text) for text in values)]


def unserved_system(text: str) -> str:
    """A system that no build is for, by the words that only it has; empty if there are none."""
    machine = next((word for word in matching("machines", [text]) if word not in SERVED), "")
    return f"{machine}-linux" if machine else ""
