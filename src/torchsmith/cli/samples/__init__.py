"""What the word `sample` means: something small, to try a verb on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent


def or_sample(path: Path, kind: Literal["torch.whl", "build.log", "nixpkgs"]) -> Path:
    """The given path; for the word sample, unless there is such a file, our sample of this kind."""
    return HERE / kind if is_sample(path) else path


def is_sample(path: Path) -> bool:
    """Whether the word sample is meant, and not a file of that name."""
    return str(path) == "sample" and not path.exists()
