"""One recipe of every family as last agreed on; `make golden` writes them again after a wanted change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.recipe.conftest import PLAN, Make
from tests.recipe.test_evaluated import AVX, FLOX, NIGHTLY, OTHER_LINES, PUBLISHED

FOLDER = Path(__file__).parent / "golden"
NATIVE = OTHER_LINES.format(line="2.9", pythons=["3.12"], cudas=["13.0"])
CASES = {
    "torch-gpu": (PLAN, "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm120-avx512.nix"),
    "torch-gpu-jetson": (PLAN, "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm110-armv9.nix"),
    "torch-gpu-avx": (AVX, "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm120-avx.nix"),
    "torch-gpu-native": (NATIVE, "build-pytorch/.flox/pkgs/pytorch-python312-cuda13_0-sm90-avx2.nix"),
    "torch-cpu": (PLAN, "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix"),
    "torchvision": (PLAN, "build-torchvision/.flox/pkgs/torchvision-python313-cuda13_0-sm120-avx512.nix"),
    "torchaudio": (PLAN, "build-torchaudio/.flox/pkgs/torchaudio-python313-cuda13_0-sm120-avx512.nix"),
    "catalog": (FLOX, "build-pytorch/.flox/pkgs/pytorch-python313-cuda12_8-sm120-avx512.nix"),
    "nightly": (
        NIGHTLY.format(self_contained="true"),
        "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm121-armv9-nightly.nix",
    ),
    "nightly-wrapper": (
        NIGHTLY.format(self_contained="false") + PUBLISHED,
        "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper.nix",
    ),
    "cuda-package": (PLAN, "build-cudatoolkit/.flox/pkgs/cudnn-13_0.nix"),
    "default": (FLOX, "build-pytorch/default.nix"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_recipe_is_as_agreed(case: str, make: Make) -> None:
    text, path = CASES[case]
    made = (make(text) / path).read_text()
    file = FOLDER / f"{case}.nix"
    if os.environ.get("TORCHSMITH_GOLDEN") == "write":
        file.write_text(made)
    assert made == file.read_text()
