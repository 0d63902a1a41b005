"""Mistakes in files that are not recipes, in four styles: each is named, and right files are quiet."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import audit
from torchsmith.core.process import run

PROGRAM = str(Path(sys.executable).with_name("torchsmith"))

FILES = {
    "overlay.nix": """final: prev: {
  cudaPackages = final.cudaPackages_12_8;
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
    (pyFinal: pyPrev: {
      torch = (pyPrev.torch.override {
        cudaSupport = true;
        gpuTargets = [ "9.0" ]; # H100
      }).overrideAttrs (old: {
        buildInputs = old.buildInputs ++ [ final.cudaPackages.cudnn ];
        passthru = old.passthru // { tuned = true; };
      });
      torchvision = pyPrev.torchvision.override { torch = pyFinal.torch; };
      vllm = pyPrev.vllm.overridePythonAttrs (old: {
        src = final.fetchFromGitHub {
          owner = "vllm-project";
          repo = "vllm";
          tag = "v0.11.0";
          hash = "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=";
        };
      });
    })
  ];
}
""",
    "flake.nix": """{
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
  inputs.stable.url = "github:NixOS/nixpkgs/nixos-25.11";
  outputs = { self, nixpkgs, stable }:
    let
      pkgs = import nixpkgs {
        system = "x86_64-linux";
        config = { allowUnfree = true; cudaSupport = true; cudaCapabilities = [ "8.9" ]; };
        overlays = [
          (final: prev: {
            torch-tuned = prev.python3Packages.torch.overrideAttrs (old: {
              NIX_CFLAGS_COMPILE = "-mavx2 -mfma";
            });
          })
        ];
      };
      old = import stable { system = "x86_64-linux"; config.allowUnfree = true; };
      vision = pkgs.python3Packages.torchvision.override { torch = pkgs.python3Packages.torch; };
    in
    {
      packages.x86_64-linux = { inherit vision; tool = old.hello; };
      devShells.x86_64-linux.default = pkgs.mkShell {
        packages = [ pkgs.cudaPackages.cudatoolkit ] ++ [
          (pkgs.python3.withPackages (ps: [ ps.torch ps.torchvision ]))
        ];
      };
    };
}
""",
    "pkgs/torchaudio/default.nix": """{ lib, buildPythonPackage, fetchFromGitHub, cmake
, torch, cudaPackages }:
let
  torchWithCuda = torch.override { cudaSupport = true; };
in
buildPythonPackage rec {
  pname = "torchaudio";
  version = "2.9.1";
  src = fetchFromGitHub {
    owner = "pytorch";
    repo = "audio";
    tag = "v${version}";
    hash = "sha256-b1sjHVFXdNFDbdtXWSM2KisSRE/8IbzJI4rvzYQ4UMg=";
  };
  nativeBuildInputs = [ cmake cudaPackages.cuda_nvcc ];
  dependencies = [ torchWithCuda ];
  cmakeFlags = [ "-DCMAKE_CUDA_ARCHITECTURES=86;89" ];
  TORCH_CUDA_ARCH_LIST = "8.6;8.9";
  meta.platforms = lib.platforms.linux;
}
""",
    "hosts/desk.nix": """{ config, lib, pkgs, ... }:
{
  nixpkgs.hostPlatform = "x86_64-linux";
  nixpkgs.config = {
    allowUnfree = true;
    cudaSupport = true;
    # RTX 3090
    cudaCapabilities = [ "8.6" ];
  };
  nixpkgs.overlays = [
    (final: prev: {
      python3 = prev.python3.override {
        packageOverrides = pyFinal: pyPrev: {
          torch = pyPrev.torch.override { cudaSupport = true; };
        };
      };
    })
  ];
  hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.stable;
  environment.systemPackages = [ (pkgs.python3.withPackages (ps: [ ps.torch ])) pkgs.python3Packages.torch ];
}
""",
}
OVERLAY, FLAKE, FUNCTION, MODULE = FILES
# The file, what is changed, into what, and the rule that names it.
PLANTED = [
    (OVERLAY, "passthru = old.passthru // { tuned = true; }", "passthru = { tuned = true; }", "TS810"),
    (OVERLAY, "old.buildInputs ++ ", "", "TS810"),
    (FLAKE, "cudaCapabilities", "cudaCapability", "TS811"),
    (FLAKE, "cudaSupport = true; ", 'cudaSupport = true; cudaVersion = "12"; ', "TS811"),
    (FUNCTION, "[ torchWithCuda ]", "[ torchWithGpu ]", "TS805"),
    (FUNCTION, "= [ torchWithCuda ]", "= = [ torchWithCuda ]", "TS001"),
    (FUNCTION, "sha256-b1sjHVFXdNFDbdtXWSM2KisSRE/8IbzJI4rvzYQ4UMg=", "", "TS901"),
    (MODULE, "pkgs.python3Packages.torch ]", "pkgs.python3Packages.pytorch ]", "TS406"),
    (MODULE, "pyPrev.torch.override", "pyPrev.pytorch.override", "TS406"),
    (MODULE, "[ ps.torch ]", "[ ps.pytorch ]", "TS406"),
    (FLAKE, "cudaSupport = true; ", "torch.cudaSupport = true; ", "TS811"),
    (FLAKE, "cudaSupport = true; ", "sunshine = { cudaSupport = true; }; ", "TS811"),
    (OVERLAY, "passthru = old.passthru // { tuned = true; }", "passthru.tuned = true", "TS810"),
    (OVERLAY, "passthru = old.passthru // { tuned = true; }", 'env.TUNED = "1"', "TS810"),
    (OVERLAY, "passthru = old.passthru // { tuned = true; }", "patches = [ ./a.patch ]", "TS810"),
    (OVERLAY, "# H100", "# torchsmith: ignore TS4o1", "TS012"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    nodes = {
        "root": {"inputs": {"nixpkgs": "nixpkgs"}},
        "nixpkgs": {"locked": {"rev": "0" * 40, "lastModified": 1764000000}},
    }
    (tmp_path / "flake.lock").write_text(json.dumps({"nodes": nodes, "root": "root", "version": 7}))
    return tmp_path


def spoken(root: Path) -> set[tuple[str, str]]:
    found = audit((root,)).findings
    return {
        (one.rule, one.where.file.removeprefix(f"{root}/"))
        for one in found
        if one.severity is not Severity.NOTE
    }


def test_right_files_of_every_style_are_quiet(checkout: Path) -> None:
    assert spoken(checkout) == set()


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: f"{mistake[0]}-{mistake[3]}")
def test_a_planted_mistake_is_named_and_nothing_else(
    mistake: tuple[str, str, str, str], checkout: Path
) -> None:
    name, old, new, rule = mistake
    assert old in FILES[name]
    (checkout / name).write_text(FILES[name].replace(old, new))
    assert spoken(checkout) == {(rule, name)}


def test_a_hook_that_is_handed_files_passes_and_sarif_has_the_line(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (checkout / "hello.nix").write_text("{ hello }: hello")
    hook = [PROGRAM, "audit", *FILES, "hello.nix"]
    assert run(hook, cwd=checkout).ok
    text = FILES[MODULE].replace("[ ps.torch ]", "[ ps.torch gone ]")
    (checkout / MODULE).write_text(text)
    done = run([*hook, "--format", "sarif"], cwd=checkout)
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (done.code, place["artifactLocation"]["uri"]) == (1, MODULE)
    assert "gone" in text.splitlines()[place["region"]["startLine"] - 1]
