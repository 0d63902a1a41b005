"""A workspace from a flake, an overlay or a module: its cells, what was taken, and what would be lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.catalog import load_catalog
from torchsmith.core.problem import Empty
from torchsmith.workspace.derive import torch_elsewhere
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.start import derive_workspace, write_derived

FLAKE = """{
  outputs = { nixpkgs, ... }: {
    packages.x86_64-linux.default = (import nixpkgs {
      system = "x86_64-linux";
      config = { allowUnfree = true; cudaSupport = true; cudaCapabilities = [ "8.9" ]; };
      overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_9; }) ];
    }).python313Packages.torch;
  };
}
"""
OVERLAY = """final: prev: {
  cudaPackages = final.cudaPackages_13_0;
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [ (pyFinal: pyPrev: {
    torch = (pyPrev.torch.override { cudaSupport = true; gpuTargets = [ "9.0" "12.0+PTX" ]; })
      .overrideAttrs (old: { patches = old.patches ++ [ ./ours.patch ]; });
    torchvision = pyPrev.torchvision.override { torch = pyFinal.torch; };
    numba = pyPrev.numba.overridePythonAttrs (old: { doCheck = false; });
  }) ];
}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def test_a_flake_for_one_gpu_is_one_cell_in_its_own_folder(checkout: Path) -> None:
    (checkout / "flake.nix").write_text(FLAKE)
    derived = derive_workspace([checkout])
    assert [cell.name for cell in derived.cells] == ["pytorch-python313-cuda12_9-sm89-avx2"]
    assert derived.lost == ()
    assert len(derived.assumed) == 2  # the instruction set and the release
    write_derived(derived)
    assert derived.file == checkout / "torchsmith.toml"
    (cell,) = open_workspace(checkout).matrix.cells
    assert cell.name == derived.cells[0].name


def test_what_a_recipe_would_not_hold_is_told_with_its_place(checkout: Path) -> None:
    file = checkout / "overlay.nix"
    file.write_text(OVERLAY)
    derived = derive_workspace([file], line="2.10")
    assert {cell.name.partition("-")[0] for cell in derived.cells} == {"pytorch", "torchvision"}
    assert {str(cell.variant.sm) for cell in derived.cells} == {"sm90", "sm120"}
    places = [words.partition(": ")[0].rpartition(":")[2] for words in derived.lost]
    assert places == ["4", "4", "6", "7"]  # PTX, patches, the torch of torchvision, another package


def test_a_gpu_of_arm_machines_alone_is_taken_with_their_instruction_set(checkout: Path) -> None:
    (checkout / "overlay.nix").write_text(OVERLAY.replace('"9.0" "12.0+PTX"', '"12.1"'))
    derived = derive_workspace([checkout])
    assert {cell.variant.isa for cell in derived.cells} == {"armv8_2"}


def test_a_cell_that_cannot_be_is_refused_with_its_reason(checkout: Path) -> None:
    (checkout / "flake.nix").write_text(FLAKE.replace("12_9", "13_0").replace("8.9", "6.1"))
    with pytest.raises(Empty) as refused:
        derive_workspace([checkout])
    assert "sm61" in refused.value.hint


def test_a_flake_without_a_target_is_told_what_is_missing(checkout: Path) -> None:
    (checkout / "flake.nix").write_text(FLAKE.replace('cudaCapabilities = [ "8.9" ]; ', ""))
    with pytest.raises(Empty) as refused:
        derive_workspace([checkout])
    assert "cudaCapabilities" in refused.value.message
    assert "flake.nix:5" in refused.value.hint  # where it asks for CUDA
    assert "12.9" in refused.value.hint


def test_facts_of_several_files_are_joined_where_they_agree(checkout: Path) -> None:
    (checkout / "gpu.nix").write_text('{ nixpkgs.config.cudaCapabilities = [ "8.6" ]; }')
    (checkout / "cuda.nix").write_text("final: prev: { cudaPackages = final.cudaPackages_12_9; }")
    (checkout / "shell.nix").write_text("{ pkgs }: pkgs.python312.withPackages (ps: [ ps.torch ])")
    derived = derive_workspace([checkout], line="2.10")
    assert [cell.name for cell in derived.cells] == ["pytorch-python312-cuda12_9-sm86-avx2"]
    (checkout / "other.nix").write_text("final: prev: { cudaPackages = final.cudaPackages_13_0; }")
    derived = derive_workspace([checkout], line="2.10")
    assert any("CUDA" in assumed for assumed in derived.assumed)  # two files disagree: none is believed


def test_templates_of_a_workspace_are_no_overlays(checkout: Path) -> None:
    (checkout / "flake.nix").write_text(FLAKE)
    (checkout / "templates").mkdir()
    (checkout / "templates/own.nix").write_text(FLAKE.replace("8.9", "9.0"))
    derived = derive_workspace([checkout])
    assert {str(cell.variant.sm) for cell in derived.cells} == {"sm89"}
    assert torch_elsewhere(checkout, load_catalog(checkout / "catalog")) == [f"{checkout}/flake.nix:5"]


def test_plan_names_what_sets_torch_beside_the_recipes(checkout: Path, call: Call) -> None:
    (checkout / "flake.nix").write_text(FLAKE)
    (checkout / "hello.nix").write_text("{ hello }: hello")
    assert call("init", "--from", ".", cwd=checkout).code == 0
    planned = call("plan", cwd=checkout)
    assert "flake.nix:5" in planned.err
    assert "hello.nix" not in planned.err


def test_the_verb_takes_a_flake_along_and_says_what_it_took(checkout: Path, call: Call) -> None:
    (checkout / "flake.nix").write_text(FLAKE)
    done = call("init", "--from", ".", cwd=checkout)
    assert (done.code, "avx2" in done.out, (checkout / "torchsmith.toml").is_file()) == (0, True, True)
