"""The GPUs that derivations compile for, and what below a recipe is for others than its own."""

from __future__ import annotations

import json

import pytest

from tests.nix.conftest import MINI
from tests.nix.test_graph import drv
from tests.recipe.conftest import PLAN, Make, make  # noqa: F401
from torchsmith.building.jobs import jobs_of
from torchsmith.catalog import builtin_catalog
from torchsmith.nix.derivation import read_drv
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.targets import foreign_targets, gpu_targets
from torchsmith.nix.tool import Nix
from torchsmith.record.estimate import expect
from torchsmith.workspace.checkout import recipes_in

GENCODE = "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_121,code=compute_121"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TORCH_CUDA_ARCH_LIST": "9.0;10.0+PTX"}, {90, 100}),
        (
            {"preConfigure": 'export TORCH_CUDA_ARCH_LIST="7.5;8.0"\nexport TORCH_CUDA_ARCH_LIST="9.0"\n'},
            {90},
        ),
        ({"TORCH_CUDA_ARCH_LIST": "8.0", "preConfigure": "  export TORCH_CUDA_ARCH_LIST=12.1"}, {121}),
        ({"cmakeFlags": "-DCMAKE_CUDA_ARCHITECTURES:STRING=75;90-real -DX=80"}, {75, 90}),
        ({"cmakeFlags": "-DCUDA_ARCH_BIN:STRING=90 -DCUDA_ARCH_PTX:STRING=9.0"}, {90}),
        ({"cmakeFlags": "-DCOMPUTE_CAPABILITY=80 -DCOMPUTE_CAPABILITY=90-real"}, {90}),
        ({"makeFlags": f"NVCC_GENCODE={GENCODE}"}, {90, 121}),
        ({"FLASH_ATTN_CUDA_ARCHS": "90"}, {90}),
        ({"cmakeFlags": "-DGPU_TARGET:STRING=900,906,1030"}, {"gfx900", "gfx906", "gfx1030"}),
        ({"cmakeFlags": "-DGPU_TARGET=sm_90,sm_120"}, {90, 120}),
        (
            {"cmakeFlags": "-DGPU_TARGETS:STRING=gfx908;gfx90a:xnack-;gfx942 -DX=gfx900"},
            {"gfx908", "gfx90a", "gfx942"},
        ),
        (
            {"preConfigure": 'export PYTORCH_ROCM_ARCH="gfx900;gfx906"\nexport PYTORCH_ROCM_ARCH="gfx942"'},
            {"gfx942"},
        ),
        ({"preConfigure": 'echo "$TORCH_CUDA_ARCH_LIST"'}, set()),
        ({}, set()),
    ],
)
def test_what_a_build_is_told_is_read_the_last_word_counting(
    env: dict[str, str], expected: set[int | str]
) -> None:
    assert gpu_targets(drv("x", **env), builtin_catalog()) == {
        arch if isinstance(arch, str) else f"sm{arch}" for arch in expected
    }


def test_structured_attributes_are_read_as_variables() -> None:
    stated = {
        "pname": "magma",
        "cmakeFlags": ["-DA=1", "-DCMAKE_CUDA_ARCHITECTURES=90"],
        "env": {"PYTORCH_BUILD_VERSION": "2.14.1", "USE_NNPACK": 1, "OFF": False},
        "outputs": ["out", "dev"],
    }
    variables = f'[("__json",{json.dumps(json.dumps(stated))})]'
    outputs = '[("out","/nix/store/abc-magma","","")]'
    text = f'Derive({outputs},[],[],"x86_64-linux","/bin/sh",[],{variables})'
    read = read_drv("/nix/store/abc-magma.drv", text)
    assert read.pname == "magma"
    assert read.env["PYTORCH_BUILD_VERSION"] == "2.14.1"
    assert (read.env["USE_NNPACK"], read.env["OFF"]) == ("1", "")
    assert gpu_targets(read, builtin_catalog()) == {"sm90"}


def test_a_stranger_is_what_is_compiled_for_another_gpu_below_a_recipe_for_one() -> None:
    magma = drv("magma", cmakeFlags="-DCMAKE_CUDA_ARCHITECTURES=75;90")
    torch = drv("torch", magma, TORCH_CUDA_ARCH_LIST="9.0")
    graph = Graph({one.path: one for one in (magma, torch)}, {"torch-sm90": torch.path, "cpu": torch.path})
    [found] = foreign_targets(graph, {"torch-sm90": "sm90"}, builtin_catalog())
    assert (found.recipes, found.name, found.gpus) == (("torch-sm90",), "magma", ("sm75",))


def test_magma_costs_less_for_one_gpu_and_more_in_nine_builds_than_in_one_for_nine() -> None:
    def hours(architectures: str) -> float:
        magma = drv("magma", cmakeFlags=f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", pname="magma")
        graph = Graph({magma.path: magma}, {})
        [job] = jobs_of(graph, {magma.path}, builtin_catalog())
        assert job.gpus == len(architectures.split(";"))
        return expect(job.work, (), builtin_catalog(), 16).seconds / 3600

    one, nine = hours("90"), hours("75;80;86;89;90;100;103;120;121")
    assert one < nine < 9 * one


@pytest.mark.needs("nix")
@pytest.mark.parametrize(
    ("narrow", "alone"),
    # x86 builds for Jetson Thor cannot be narrowed; builds for it on ARM always are.
    [("all", 36), ("torch", 2)],
)
def test_of_the_seed_plan_all_but_x86_builds_for_jetson_hold_code_for_one_gpu(
    narrow: str,
    alone: int,
    make: Make,  # noqa: F811
    nix: Nix,
) -> None:
    folder = make(f'narrow = "{narrow}"\n{PLAN}')
    recipes = [one for one in recipes_in(folder) if one.variant and one.variant.sm]
    requests = [EvaluationRequest(one.name, one.path, one.system) for one in recipes]
    graph = graph_of(
        nix, evaluate(requests, nix, EvaluationOptions(trees={"default": MINI}, instantiate=True))
    )
    own = {one.name: one.variant.arch for one in recipes if one.variant}
    others = foreign_targets(graph, own, builtin_catalog())
    for package in ("pytorch", "torchvision", "torchaudio"):
        cells = {name for name in own if name.startswith(package)}
        assert len(cells) == 40
        assert len(cells - {name for one in others for name in one.recipes}) == alone, package
    if narrow == "all":
        assert {name.split("-")[3] for one in others for name in one.recipes} == {"sm110"}
        assert not any("arm" in name for one in others for name in one.recipes)
    assert len([one for one in graph.long_builds(builtin_catalog()) if one.kind == "pytorch"]) == 40
