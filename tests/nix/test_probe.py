"""What a nixpkgs tree has is asked of Nix: the miniature tells what it was made to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from tools.pins import asked
from torchsmith.catalog import builtin_catalog
from torchsmith.edit.line import propose_line
from torchsmith.edit.pin import Move, propose
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import Nix
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.load import open_workspace

pytestmark = pytest.mark.needs("nix")
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90"]
isa = ["avx2"]
"""
REV = "00000000000000000000000000000000000000aa"
ASKING = ("cuda-package-set", "magma-cuda13", "opencv-cuda13")  # fixes that ask a nixpkgs whether it has them


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            MINI,
            {"torch": "2.9.1", "torchvision": "0.24.0", "torch_shape": "attributes", "default_cuda": "12.8"},
        ),
        (MINI / "at-2026-11", {"torch": "2.14.1", "torchaudio": "2.11.0", "torch_shape": "structured"}),
        (MINI / "at-fe5e41d", {"torch": "2.8.0", "cudas": ["12.6", "12.8", "12.9"], "aliases": ["pytorch"]}),
    ],
)
def test_a_tree_tells_its_releases_cudas_pythons_and_shape(
    tree: Path, expected: dict[str, object], nix: Nix
) -> None:
    facts = probe(nix, tree, builtin_catalog())
    assert expected.items() <= facts.items()
    assert facts["pythons"] == ["3.11", "3.12", "3.13"]
    assert facts["default_python"] == "3.13"
    assert nix.version_text in facts["source"]


def test_a_line_moves_to_what_a_tree_has_and_needs_no_fix_of_its_own_release(
    tmp_path: Path, nix: Nix
) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path))
    facts = probe(nix, MINI / "at-2026-11", builtin_catalog())
    opened = open_workspace(tmp_path)
    moved = propose(opened, Move("2.10", REV, probed=facts)).after.catalog
    build = moved.lines["2.10"].cuda["13.0"]
    assert moved.pins[build.pin].torch_shape == "structured"
    assert "torch-source" in build.fixes
    native = propose(opened, Move("2.10", REV, probed=facts | {"torch": "2.10.0"})).after.catalog
    assert native.lines["2.10"].cuda["13.0"].fixes == ASKING


def test_a_line_is_added_from_what_a_tree_has(tmp_path: Path, nix: Nix) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    facts = probe(nix, MINI / "at-2026-11", builtin_catalog())
    pairs = {name: facts[name] for name in ("torchvision", "torchaudio")}
    like = Move("2.10", REV, torch="2.14.1", versions=pairs, probed=facts)
    line = propose_line(open_workspace(tmp_path), "2.14", like).after.catalog.lines["2.14"]
    assert (line.torch, line.versions["torchaudio"]) == ("2.14.1", "2.11.0")
    assert line.cuda["13.0"].fixes == ASKING
    assert line.cpu is not None
    assert line.cpu.fixes == ()


def test_an_entry_that_says_the_same_keeps_its_day(nix: Nix) -> None:
    trees = {REV: MINI}
    first = asked(nix, {}, trees)
    entry = first[REV[:7]]
    assert entry["rev"] == REV
    earlier = {REV[:7]: entry | {"source": "asked with Nix 2.3, 2020-01-01"}}
    assert asked(nix, earlier, trees) == earlier
    assert asked(nix, {REV[:7]: entry | {"torch": "1.0"}}, trees) == first


def test_gpus_that_a_tree_refuses_are_limits_and_what_it_lacks_on_a_system_is_named(
    tmp_path: Path, nix: Nix
) -> None:
    (tmp_path / "default.nix").write_text(REFUSING.replace("MINI", str(MINI)))
    facts = probe(nix, tmp_path, builtin_catalog())
    assert facts["min_sm"] == "sm75"
    (limit,) = facts["limits"].values()
    assert (limit["cuda"], limit["sms"], limit["platforms"]) == ("==13.0", ["sm87"], ["aarch64-linux"])
    assert "cuda_nvcc" in limit["reason"]
    assert facts["missing"]["aarch64-linux"] == ["vllm"]
    pin = builtin_catalog().pin_of(REV[:7], {"rev": REV, **facts})
    assert pin.capabilities["x86_64-linux"]["13.0"] == ("9.0",)


@pytest.mark.parametrize(
    ("magma", "patched"),
    [
        ("{ }", True),
        ('{ version = "2.10.0"; }', False),
        ('{ patches = [ (final.fetchpatch { name = "theirs"; url = "URL"; hash = "HASH"; }) ]; }', False),
    ],
)
def test_magma_is_patched_where_the_nixpkgs_has_not_mended_it(
    magma: str, patched: bool, tmp_path: Path, nix: Nix
) -> None:
    catalog = builtin_catalog()
    patch = catalog.fixes["magma-cuda13"].patches["clockrate"]
    tree = MENDING.replace("MINI", str(MINI)).replace("ATTRIBUTES", magma)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/default.nix").write_text(tree.replace("URL", patch.url).replace("HASH", patch.hash))
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path))
    recipe = next((tmp_path / "build-pytorch/.flox/pkgs").iterdir())
    words = [str(recipe), "--arg", "torchsmithNixpkgs", str(tmp_path / "tree")]
    derivation = nix.ask(nix.command("nix-instantiate", *words), "not evaluated").stdout.split()[-1]
    below = nix.ask(nix.command("nix-store", "--query", "--requisites", derivation), "not there").stdout
    assert (patch.name in below) is patched


# The miniature with another MAGMA.
MENDING = """
{ overlays ? [ ], ... }@args:
import MINI (args // {
  overlays = [ (final: prev: { magma = prev.magma.overrideAttrs (old: ATTRIBUTES); }) ] ++ overlays;
})
"""

# The miniature, whose cuDNN takes Turing and newer and whose CUDA 13.0 has no Orin, as nixpkgs' own.
REFUSING = """
{ system ? builtins.currentSystem, config ? { }, overlays ? [ ] }@args:
let
  pkgs = import MINI args;
  capability = builtins.head (config.cudaCapabilities or [ "9.0" ]);
  narrowed = name: available: { inherit name; meta = { inherit available; }; };
  set = version: prev: prev // {
    cudaMajorMinorVersion = version;
    flags.cudaCapabilities = [ "9.0" ];
    cuda_nvcc = narrowed "nvcc" (!(version == "13.0" && capability == "8.7"));
    libcublas = narrowed "cublas" true;
    cccl = narrowed "cccl" true;
    cudnn = narrowed "cudnn" (!(builtins.elem capability [ "6.0" "6.1" "7.0" ]));
  };
in
pkgs // {
  cudaPackages_12_6 = set "12.6" pkgs.cudaPackages_12_6;
  cudaPackages_12_8 = set "12.8" pkgs.cudaPackages_12_8;
  cudaPackages_12_9 = set "12.9" pkgs.cudaPackages_12_9;
  cudaPackages_13_0 = set "13.0" pkgs.cudaPackages_13_0;
  python3Packages = pkgs.python3Packages // {
    vllm = { version = "0.11.0"; meta.available = system != "aarch64-linux"; };
  };
}
"""
