"""What shows GPUs, their makers and systems in a text: traces.toml as patterns."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from torchsmith.core.toml import read_cached

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
