"""The checks that maintainers of such matrices run by hand, run literally on what torchsmith generates."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PIN = "6a030d535719c5190187c4cec156f335e95e3211"


def bash(folder: Path, script: str) -> str:
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["pytorch", "torchvision", "torchaudio"])
def test_the_plans_own_verification_holds(plan: Path, package: str) -> None:
    repo = plan / f"build-{package}"

    def sh(script: str) -> str:
        return bash(repo, script.replace("pytorch-python", f"{package}-python"))

    assert sh("ls .flox/pkgs/pytorch-python313-cuda13_0-*.nix | wc -l") == "40"
    assert sh("ls .flox/pkgs/pytorch-python313-cpu-*.nix | wc -l") == "4"
    for suffix in ("-magma", "-nightly", "-avx"):
        assert sh(f"ls .flox/pkgs/pytorch-python313-cuda13_0-*{suffix}.nix 2>/dev/null") == ""
    broken = sh(
        """for f in .flox/pkgs/pytorch-python313-cuda13_0-*.nix; do
          count=$(grep -c 'cudaPackages_13\\|cuda-13.0-clockrate-fix.patch\\|version = "2.10.0"' "$f")
          if [ "$count" -ne 3 ]; then
            echo "BROKEN: $f (expected 3 patterns, found $count)"
          fi
        done"""
    )
    assert broken == ""
    broken = sh(
        """for f in .flox/pkgs/pytorch-python313-cpu-*.nix; do
          count=$(grep -c 'version = "2.10.0"' "$f")
          cuda=$(grep -c 'cudaPackages_13' "$f")
          if [ "$count" -ne 1 ] || [ "$cuda" -ne 0 ]; then
            echo "BROKEN: $f"
          fi
        done"""
    )
    assert broken == ""
    assert sh("grep -l 'fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3' .flox/pkgs/pytorch-python313-*.nix") == ""
    for capability, sm, count in (("9.0", "sm90", 4), ("8.6", "sm86", 4), ("12.1", "sm121", 6)):
        found = sh(f"grep 'gpuArchSM = \"{capability}\"' .flox/pkgs/pytorch-python313-cuda13_0-{sm}-*.nix")
        assert len(found.splitlines()) == count


@pytest.mark.parametrize("package", ["pytorch", "torchvision", "torchaudio"])
def test_every_gpu_recipe_passes_the_refactoring_checks(plan: Path, package: str) -> None:
    for file in sorted((plan / f"build-{package}/.flox/pkgs").glob("*-cuda13_0-*.nix")):
        name = file.name

        def sh(script: str, name: str = name) -> str:
            return bash(plan / f"build-{package}/.flox/pkgs", script.replace("<file>", name))

        assert sh("grep 'cuda-13.0-clockrate-fix.patch' <file>")
        assert sh("grep -E 'filterMagma|USE_MAGMA=OFF|USE_MAGMA=0' <file>") == ""
        assert sh(f"grep '{PIN}' <file>")
        assert sh("grep 'MAGMA.*Enabled' <file>")
        for flag in (
            "-DTORCH_BUILD_VERSION=2.10.0",
            "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat",
            "-DCUDA_VERSION=13.0",
        ):
            assert flag in file.read_text()


def test_torch_carries_its_prefix_and_companions_their_own_name(plan: Path) -> None:
    torch = (plan / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm120-avx512.nix").read_text()
    assert 'pname = "pytorch210-python313-cuda13_0-sm120-avx512";' in torch
    name = "torchvision-python313-cuda13_0-sm120-avx512"
    assert f'pname = "{name}";' in (plan / f"build-torchvision/.flox/pkgs/{name}.nix").read_text()


def test_the_release_is_stated_once_and_the_rest_takes_it_from_there(plan: Path) -> None:
    for file in sorted((plan / "build-pytorch/.flox/pkgs").glob("pytorch-*.nix")):
        phases = re.search(r"preConfigure = .*?passthru", file.read_text(), re.DOTALL)
        assert phases is not None
        assert "2.10.0" not in phases[0]
        assert phases[0].count("${oldAttrs.version}") == 2
        assert bash(file.parent, f"grep -c 'version = \"2.10.0\"' {file.name}") == "1"
