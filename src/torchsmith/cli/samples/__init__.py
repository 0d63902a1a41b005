"""What the word `sample` stands for: something small of ours, to try a verb on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent


def or_sample(path: Path, kind: Literal["build", "build.log", "nixpkgs"]) -> Path:
    """What is given; for the word sample, where nothing of that name is here, ours of this kind."""
    return (HERE / kind).resolve() if is_sample(path) else path


def is_sample(path: Path) -> bool:
    """Whether the word sample is meant, and not a file of that name."""
    return str(path) == "sample" and not path.exists()
