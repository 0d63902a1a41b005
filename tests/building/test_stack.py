"""The packages that people ship beside torch: one torch for all of a cell, each told its GPU its own way."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.building.conftest import ARM, ISA, SMALL, Place
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder

pytestmark = pytest.mark.needs("nix")
SHIPPED = ["xformers", "flash-attn", "bitsandbytes", "torchsde", "onnxruntime"]
# vLLM has no cell on ARM, nor on CUDA 13; there the catalog's limits are lifted, as a workspace may.
LIFTED = "[vllm.limits.tensorflow]\nreason = ''\nlines = ['2.8']\n" if ARM else ""
NEEDS = ("torchvision", "torchaudio", "xformers", "bitsandbytes")
CELL = f"python313-cuda12_8-sm90-{ISA}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path
    (root / "catalog").mkdir(parents=True)
    (root / "catalog/estimates.toml").write_text(SMALL)
    (root / "catalog/packages.toml").write_text(LIFTED)
    packages = ["pytorch", *NEEDS[:2], *SHIPPED, "vllm"]
    (root / "torchsmith.toml").write_text(
        f'format = 1\npackages = {json.dumps(packages)}\n[[matrix]]\nline = "2.10"\n'
        f'python = ["3.13"]\ncuda = ["12.8"]\nsm = ["sm90"]\nisa = ["{ISA}"]\n'
    )
    return Place(root)


def test_a_stack_has_one_torch_and_brings_the_cells_own_builds(
    place: Place, nix_here: Path, call: Call
) -> None:
    assert call(*place.words("apply")).code == 0
    graph = json.loads(call(*place.words("eval", "--graph", "--json")).out)["graph"]
    torch = [set(one["recipes"]) for one in graph["long_builds"] if one["kind"] == "pytorch"]
    below = {f"{name}-{CELL}" for name in ("pytorch", *NEEDS[:2], *SHIPPED, "vllm") if name != "onnxruntime"}
    assert torch == [below], "one torch, in whatever needs it, also if einops brings it in"
    recipes = graph["recipes"]
    told = subprocess.run(
        ["nix-store", "-qR", recipes[f"vllm-{CELL}"]], capture_output=True, text=True, check=True
    )
    missing = [name for name in NEEDS if recipes[f"{name}-{CELL}"] not in told.stdout.split()]
    assert not missing, "what a stack needs is what its own recipe builds"


@pytest.mark.long
def test_each_is_compiled_for_its_own_gpu_alone(place: Place, nix_here: Path, call: Call) -> None:
    assert call(*place.words("apply")).code == 0
    audited = call("audit", str(place.root), "--eval", "--json")
    assert json.loads(audited.out)["findings"] == []
    built = call(*place.words("build"))
    assert built.code == 0, built.err
    for package in ("xformers", "flash-attn", "bitsandbytes", "vllm", "onnxruntime"):
        result = state_folder(place.root) / "results" / f"{package}-{CELL}"
        report = json.loads(call(*place.words("verify", str(result), "--json")).out)["report"]
        assert report["variant"] == f"{package}-{CELL}"
        gpu = next(check for check in report["checks"] if check["id"] == "gpu")
        assert gpu["status"] == "right", (package, report["checks"])
