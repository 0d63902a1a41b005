"""What the word `sample` stands for: something small of ours, to try a verb on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent


def or_sample(given: Path, kind: Literal["build", "build.log", "nixpkgs"]) -> Path:
    """What is given; for the word sample, where nothing of that name is here, ours of this kind."""
    return (HERE / kind).resolve() if is_sample(given) else given


def is_sample(given: Path) -> bool:
    """Whether the word sample is meant, and not a file of that name."""
    return str(given) == "sample" and not given.exists()
