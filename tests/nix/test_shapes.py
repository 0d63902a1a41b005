"""Recipes build on both shapes of nixpkgs' torch: variables as attributes, and all in `env` of structured
attributes. What a recipe says is read off the built library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.nix.conftest import MINI, native_system
from tests.nix.test_miniature import build, built, fatbin_targets
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.nix.tool import Nix
from torchsmith.verbs.apply import ApplyRequest, apply

pytestmark = pytest.mark.needs("nix")

TODAY = MINI / "at-2026-11"
ARM = native_system() == "aarch64-linux"
ISA, FLAG = ("armv8_2", "-march=armv8.2-a") if ARM else ("avx", "-mavx")
OFF = () if ARM else ("USE_FBGEMM", "USE_MKLDNN", "USE_MKLDNN_CBLAS", "USE_NNPACK")
CELL = f"python313-cuda13_0-sm90-{ISA}"
BLOCK = f'[[matrix]]\npython = ["3.13"]\ncuda = ["13.0"]\nsm = ["sm90"]\nisa = ["{ISA}"]\n'
NATIVE_PIN = """\
[today]
rev = "00000000000000000000000000000000000000aa"
torch = "2.14.1"
torchvision = "0.29.2"
torchaudio = "2.11.0"
cudas = ["13.0"]
pythons = ["3.13"]
default_python = "3.13"
source = "a test"
"""
NATIVE_LINE = """\
["2.14".cuda."13.0"]
pin = "today"
fixes = ["cuda-package-set"]
unproved = ""
"""


def workspace(root: Path, line: str) -> Path:
    """A workspace with one cell; line 2.14 is the own release of a pin of today's shape."""
    (root / "torchsmith.toml").write_text(f'format = 1\nline = "{line}"\n{BLOCK}')
    if line == "2.14":
        (root / "catalog").mkdir()
        (root / "catalog/pins.toml").write_text(NATIVE_PIN)
        (root / "catalog/lines.toml").write_text(NATIVE_LINE)
    assert not apply(ApplyRequest(workspace=root)).skipped
    return root


@pytest.mark.parametrize(
    ("tree", "line", "versions"),
    [
        (MINI, "2.10", "2.10.0 0.25.0 2.10.0"),
        (TODAY, "2.10", "2.10.0 0.25.0 2.10.0"),
        (TODAY, "2.14", "2.14.1 0.29.2 2.11.0"),
    ],
)
def test_a_cell_builds_as_it_says_on_both_shapes_of_torch(
    tree: Path,
    line: str,
    versions: str,
    tmp_path: Path,
    building_nix: Nix,
) -> None:
    folder = workspace(tmp_path, line)
    names = ("torchvision", "torchaudio")
    recipes = {name: folder / f"build-{name}/.flox/pkgs/{name}-{CELL}.nix" for name in names}
    own = " ".join(
        f"{name} = import {file} {{ torchsmithNixpkgs = {tree}; }};" for name, file in recipes.items()
    )
    scope = f"let mini = import {tree} {{ }}; {own} in "
    python = built(building_nix, "-E", f"{scope} mini.python313.withPackages (_: [ torchvision torchaudio ])")
    script = "import torch, torchvision, torchaudio as a; print(torch.__version__, torchvision.__version__,"
    script += " a.__version__); print(torch.cuda.get_arch_list()); print(torch.__config__.show())"
    told = building_nix.run([str(python / "bin/python"), "-c", script])
    assert told.ok, told.stderr
    said, targets, settings = told.stdout.splitlines()[:3]
    assert said == versions
    assert targets == "['sm_90']"
    assert FLAG in settings
    for name in OFF:
        assert f"{name}=0" in settings, name
    assert "XNNPACK_BUILD_ALL_MICROKERNELS=OFF" in settings
    for name in names:
        out = built(building_nix, "-E", f"{scope} {name}")
        for library in out.glob("lib/python3.13/site-packages/*/_C.so"):
            assert fatbin_targets(library) == [90], name
            assert_flags_recorded(library, host_halves=name == "torchvision", companion=True)
    torch = built(building_nix, "-E", f"{scope} torchvision.torch.lib")
    for library in torch.glob("lib/libtorch_*.so"):
        assert_flags_recorded(library, host_halves="cuda" in library.name, companion=False)
    below = building_nix.run(building_nix.command("nix-store", "--query", "--requisites", str(python)))
    assert "-torch-" not in below.stdout, "nixpkgs' own torch is built besides"


def assert_flags_recorded(library: Path, *, host_halves: bool, companion: bool) -> None:
    """Every unit records how the recipe's flags reached it; nothing of the store is in the record."""
    recorded = recorded_lines(library)
    if library.name != "libtorch_cuda.so":  # CUDA units alone, in the miniature
        assert any(CXX_MARK in line and FLAG in line for line in recorded), (library, recorded)
    halves = [line for line in recorded if HOST_MARK in line]
    assert bool(halves) is host_halves, (library, recorded)
    assert all((FLAG in line) is companion for line in halves), (library, recorded)
    assert all(CXX_MARK in line or HOST_MARK in line for line in recorded), (library, recorded)
    assert not any("/nix/store" in line or "/build" in line for line in recorded)


def recorded_lines(library: Path) -> list[str]:
    command = ["readelf", "--string-dump=.GCC.command.line", str(library)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.partition("]")[2].strip() for line in told.splitlines() if "GNU C" in line]


def test_a_native_release_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = workspace(tmp_path, "2.14")
    text = (folder / f"build-pytorch/.flox/pkgs/pytorch-{CELL}.nix").read_text()
    for word in ("patches =", "fetchFromGitHub", "FindCUDAToolkit", "broken", "cccl"):
        assert word not in text, word


def test_an_attribute_that_torch_has_in_env_is_refused_as_by_nixpkgs(building_nix: Nix) -> None:
    torch = f"(import {TODAY} {{ }}).python3Packages.torch.overrideAttrs {{ USE_NNPACK = 0; }}"
    failed = build(building_nix, "-E", torch)
    assert failed.code != 0
    assert "The `env` attribute set cannot contain any attributes passed to derivation" in failed.stderr
