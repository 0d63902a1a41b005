"""What shows GPUs, their makers and systems in a text: traces.toml as patterns."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from torchsmith.core.toml import read_cached

# Systems that no build is for: Linux on other CPUs, and what calls itself Linux and is not.
UNSERVED = ("powerpc64le-linux", "riscv64-linux", "loongarch64-linux", "s390x-linux", "aarch64-android")
MAKERS = ("nvidia", "other", "cuda", "amd")


@cache
def traces() -> dict[str, re.Pattern[str]]:
    """The table of traces, each kind as one pattern; `any`: all kinds that count."""
    table = read_cached(Path(__file__).with_name("traces.toml"))
    joined = {kind: "|".join(patterns) for kind, patterns in table.items()}
    product = joined["product"] = rf"\b(?:{joined['product']})"
    joined["any"] = "|".join([*(joined[kind] for kind in (*MAKERS, "word")), product])
    compiled = {kind: re.compile(text, re.IGNORECASE | re.MULTILINE) for kind, text in joined.items()}
    return compiled | {"product": re.compile(product)}


def unserved_system(text: str) -> str:
    """A system that no build is for, by the words that only it has; empty where there are none."""
    return next((system for system in UNSERVED if traces()[system].search(text)), "")
