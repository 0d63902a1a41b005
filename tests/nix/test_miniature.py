"""The miniature nixpkgs behaves like nixpkgs in all that recipes use, and its packages really build."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.nix.conftest import MINI, native_system
from tests.recipe.conftest import Make, make  # noqa: F401
from torchsmith.core.process import Finished
from torchsmith.nix.tool import Nix

pytestmark = pytest.mark.needs("nix")

# A cell that any machine of its kind can run.
CELL = {"x86_64-linux": ("sm90", "avx2", "-mavx2"), "aarch64-linux": ("sm90", "armv8_2", "-march=armv8.2-a")}


def build(nix: Nix, *words: str) -> Finished:
    return nix.run(nix.command("nix-build", "--no-out-link", *words), timeout=300)


def built(nix: Nix, *words: str) -> Path:
    done = build(nix, *words)
    assert done.ok, done.stderr[-3000:]
    return Path(done.stdout.split()[-1])


def fatbin_targets(library: Path) -> list[int]:
    """The architectures in the first container of a library's .nv_fatbin section."""
    data = library.read_bytes()
    start = data.index(struct.pack("<I", 0xBA55ED50))
    size = struct.unpack_from("<IHHQ", data, start)[3]
    at, found = start + 16, []
    while at < start + 16 + size:
        head = struct.unpack_from("<HHIQIIHHIIIQ", data, at)
        found.append(head[8])
        at += head[2] + head[3]
    return found


def test_a_generated_cell_builds_imports_and_holds_what_its_name_says(
    make: Make,  # noqa: F811
    building_nix: Nix,
) -> None:
    sm, isa, flag = CELL[native_system()]
    matrix = f'[[matrix]]\npython = ["3.13"]\ncuda = ["13.0"]\nsm = ["{sm}"]\nisa = ["{isa}"]\n'
    folder = make(f"format = 1\n{matrix}")
    cell = f"python313-cuda13_0-{sm}-{isa}"
    recipe = folder / f"build-torchvision/.flox/pkgs/torchvision-{cell}.nix"
    arg = f"mini = import {MINI} {{ }}; vision = import {recipe} {{ torchsmithNixpkgs = {MINI}; }};"
    python = built(building_nix, "-E", f"let {arg} in mini.python313.withPackages (_: [ vision ])")
    script = (
        "import torch, torchvision; print(torch.__version__, torchvision.__version__, torch.ones_sum(40))"
    )
    script += "; print(torch.cuda.get_arch_list()); print(torch.__config__.show())"
    told = building_nix.run([str(python / "bin/python"), "-c", script])
    assert told.ok, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == "2.10.0 0.25.0 40.0"
    assert lines[1] == "['sm_90']"
    assert flag in lines[2]
    vision = built(building_nix, "-E", f"let {arg} in vision")
    [library] = vision.glob("lib/python3.13/site-packages/torchvision/_C.so")
    assert fatbin_targets(library) == [90]


def test_a_wrong_hash_is_answered_with_the_right_one(building_nix: Nix) -> None:
    fetch = 'mini.fetchFromGitHub {{ owner = "pytorch"; repo = "vision"; rev = "x"; hash = "{}"; }}'
    failed = build(building_nix, "-E", f"let mini = import {MINI} {{ }}; in {fetch.format('')}")
    got = re.search(r"got:\s+(sha256-\S+)", failed.stderr)
    assert failed.code != 0
    assert got is not None, failed.stderr
    source = built(building_nix, "-E", f"let mini = import {MINI} {{ }}; in {fetch.format(got[1])}")
    assert (source / "setup.py").is_file()


def test_a_torch_without_its_patch_and_without_a_stub_does_not_install(building_nix: Nix) -> None:
    config = "config = { cudaSupport = true; allowUnfree = true; };"
    torch = f"(import {MINI} {{ {config} }}).python3Packages.torch"
    failed = build(building_nix, "-E", f"{torch}.overrideAttrs (_: {{ patches = [ ]; }})")
    assert failed.code != 0
    assert "file INSTALL cannot find 'cmake/Modules/FindCUDAToolkit.cmake'" in failed.stderr


KEPT = "passthru = o.passthru //"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # override keeps overrideAttrs, and overrideAttrs keeps override
        ("((p.torch.overrideAttrs (_: { x = 1; })).override { cudaSupport = false; }).x", "1"),
        ('((p.torch.override { gpuTargets = [ "9" ]; }).overrideAttrs (o: { y = o.pname; })).y', '"torch"'),
        # a package set's override reaches what depends on it
        ("(set.override { overrides = f: s: { torch = s.torch // { m = 1; }; }; }).torch.m", "1"),
        (
            "changed.torchvision.drvPath == p.torchvision.drvPath",
            "false",
        ),
        # passthru and meta do not reach the derivation
        (
            f"(p.torch.overrideAttrs (o: {{ {KEPT} {{ z = 1; }}; }})).drvPath == p.torch.drvPath",
            "true",
        ),
        # a companion reads its architectures off torch
        ("(p.torchvision.override { torch = other; }).TORCH_CUDA_ARCH_LIST", '"1.2"'),
        ("(builtins.tryEval p.pytorch).success", "false"),
        ("(builtins.tryEval mini.cudaPackages_12_4).success", "false"),
        ("mini.cudaPackages.cudaMajorMinorVersion", '"12.8"'),
    ],
)
def test_overriding_works_as_in_nixpkgs(expression: str, expected: str, nix: Nix) -> None:
    scope = f"""let
      mini = import {MINI} {{ config = {{ cudaSupport = true; allowUnfree = true; }}; }};
      p = set; set = mini.python3Packages;
      other = p.torch.overrideAttrs (o: {{ {KEPT} {{ cudaCapabilities = [ "1.2" ]; }}; x = 1; }});
      changed = set.override {{ overrides = f: s: {{ torch = other; }}; }};
    in """
    done = nix.run(nix.command("nix-instantiate", "--eval", "--strict", "-E", scope + expression))
    assert done.ok, done.stderr
    assert done.stdout.strip() == expected
