"""A backend is data: ROCm's cells and recipes, and one that is made up here by data alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.nix.conftest import MINI
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.axes import BackendVersion
from torchsmith.matrix import Accelerator, Accepted, BadName, Rejected, Variant, assess, read_name
from torchsmith.matrix.text import products_of
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
ROCM = "pytorch-python313-rocm6_4-gfx942-avx512"


def codes(name: str) -> list[str]:
    decision = assess(Variant.parse(name, CATALOG), CATALOG)
    return [reason.code for reason in decision.reasons] if isinstance(decision, Rejected) else []


def test_a_name_is_read_and_written_the_same() -> None:
    variant = Variant.parse(ROCM, CATALOG)
    assert variant.name == ROCM
    assert variant.target == Accelerator(BackendVersion("rocm", 6, 4), "gfx942", "rocm6_4-gfx942")
    assert (variant.cuda, variant.sm, variant.arch) == (None, None, "gfx942")
    for wrong in ("pytorch-python313-rocm6_4-sm90-avx2", "pytorch-python313-rocm64-gfx942-avx2"):
        with pytest.raises(BadName):
            read_name(wrong, CATALOG)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (ROCM, ""),
        ("torchaudio-python313-rocm6_4-gfx1100-avx2", ""),
        ("pytorch-python313-rocm6_4-gfx950-avx2", "pin-no-arch"),  # which nixpkgs has no set for
        ("pytorch-python313-rocm6_4-gfx1999-avx2", "unknown-sm"),
        ("pytorch-python313-rocm6_4-gfx942-armv9", "backend-no-system"),
        ("pytorch-python313-rocm9_9-gfx942-avx2", "no-line"),
        ("flash-attn-python313-rocm6_4-gfx942-avx2", "package-no-backend"),
    ],
)
def test_a_cell_is_offered_where_its_nixpkgs_has_it(name: str, code: str) -> None:
    assert codes(name)[-1:] == ([code] if code else [])


def test_every_cell_of_the_profile_is_offered_and_no_other_profile_has_one() -> None:
    matrix = open_workspace(None, "rocm").matrix
    assert len(matrix.cells) == 11 * 2 * 3
    assert not matrix.left_out
    for name in ("seed", "real", "wide"):
        cells = open_workspace(None, name).matrix.cells
        assert not any(isinstance(cell.variant.target, Accelerator) for cell in cells)


@pytest.mark.parametrize(("gpu", "given"), [("MI300X", True), ("H100", False), ("RX 7900 XTX", False)])
def test_a_cell_is_given_to_machines_with_its_gpu_alone(
    gpu: str, given: bool, tmp_path: Path, call: Call
) -> None:
    cells = f'include = ["{ROCM}", "pytorch-python313-cpu-avx512"]'
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\n{cells}\n')
    words = ("pick", "--gpu", gpu, "--cpu", "EPYC 9654", "-w", str(tmp_path), "--names")
    assert (ROCM in call(*words).out.split()) is given


def test_generated_recipes_are_right_and_listed(tmp_path: Path, call: Call) -> None:
    block = 'python = ["3.13"]\ntarget = ["rocm6_4-gfx942", "rocm6_4-gfx90a"]\nisa = ["avx2"]\n'
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\n[[matrix]]\n{block}')
    assert call("generate", "-w", str(tmp_path)).code == 0
    recipe = tmp_path / "build-torchaudio/.flox/pkgs/torchaudio-python313-rocm6_4-gfx90a-avx2.nix"
    assert 'export PYTORCH_ROCM_ARCH="gfx90a"' in recipe.read_text()
    audit = json.loads(call("audit", str(tmp_path), "--json").out)
    assert audit["findings"] == []
    rows = json.loads(call("list", "-w", str(tmp_path), "--json").out)["cells"]
    assert {row["target"] for row in rows} == {"rocm6_4-gfx90a", "rocm6_4-gfx942"}
    chosen = json.loads(call("list", "gfx90a", "package:pytorch", "-w", str(tmp_path), "--json").out)["cells"]
    assert [row["name"] for row in chosen] == ["pytorch-python313-rocm6_4-gfx90a-avx2"]


BACKEND = """
[nova]
title = "Nova"
target = "nova{release}-{arch}"
arch = 'nv\\d'
example = "nv1"
systems = ["x86_64-linux", "aarch64-linux"]
config = { novaSupport = true }
package_set = "novaPackages"
release_of = "core"
driver = "a driver of Nova"
archs.nv1 = { title = "Nova One" }
archs.nv2 = { title = "Nova Two" }
source = "made up"
"""
TREE = """
{ overlays ? [ ], ... }@args:
import ./mini.nix (args // {
  overlays = [ (final: prev: {
    novaPackages = { core.version = "1.2.3"; nv1.core.version = "1.2.3"; };
  }) ] ++ overlays;
})
"""


@pytest.fixture
def nova(tmp_path: Path) -> Path:
    """A workspace with a backend of its own, and a tree that has it."""
    (tmp_path / "w/catalog").mkdir(parents=True)
    (tmp_path / "w/catalog/backends.toml").write_text(BACKEND)
    (tmp_path / "w/catalog/lines.toml").write_text('["2.9".backends.nova."1.2"]\npin = "6a030d5"\n')
    block = 'python = ["3.13"]\ntarget = ["nova1_2-nv1"]\nisa = ["avx2"]\n'
    (tmp_path / "w/torchsmith.toml").write_text(f'format = 1\nline = "2.9"\n[[matrix]]\n{block}')
    shutil.copytree(MINI, tmp_path / "tree")
    (tmp_path / "tree/default.nix").rename(tmp_path / "tree/mini.nix")
    (tmp_path / "tree/default.nix").write_text(TREE)
    return tmp_path


@pytest.mark.needs("nix")
def test_a_backend_is_added_by_data_alone(nova: Path, call: Call) -> None:
    settings, derivations = nova / "w/torchsmith.toml", []
    plain = settings.read_text()
    for layout in ("standalone", "shared"):
        settings.write_text(plain.replace("line =", f'layout = "{layout}"\nline =', 1))
        assert call("generate", "-w", str(nova / "w")).code == 0
        words = ("eval", "-w", str(nova / "w"), "--nixpkgs", str(nova / "tree"), "--json", "--no-cache")
        result = call(*words)
        recipes = json.loads(result.out)["recipes"]
        assert (result.code, len(recipes)) == (0, 3), result.out
        derivations.append({recipe["evaluated"]["drv_path"] for recipe in recipes})
    assert derivations[0] == derivations[1]
    name = "pytorch-python313-nova1_2-nv1-avx2"
    shown = json.loads(call("show", name, "-w", str(nova / "w"), "--json").out)
    assert (shown["gpu"]["cuda"], shown["gpu"]["sm"]) == ("Nova 1.2", "nv1")


@pytest.mark.needs("nix")
def test_a_tree_tells_which_architectures_it_has_a_set_for(nova: Path) -> None:
    facts = probe(find_nix(), nova / "tree", open_workspace(nova / "w").catalog)
    assert facts["backends"] == {"nova": {"release": "1.2", "archs": ["nv1"]}}


def test_a_line_is_accepted_for_the_backend_that_it_states() -> None:
    decision = assess(Variant.parse(ROCM, CATALOG), CATALOG)
    assert isinstance(decision, Accepted)
    assert decision.line.name == "2.9"


def test_cells_become_blocks_and_stay_the_same_cells(tmp_path: Path) -> None:
    cells = open_workspace(None, "rocm").matrix.cells
    blocks = "\n".join(product.text() for product in products_of(cells))
    (tmp_path / "torchsmith.toml").write_text(f"format = 1\n{blocks}")
    again = open_workspace(tmp_path).matrix.cells
    assert [cell.name for cell in again] == [cell.name for cell in cells]


def test_a_build_with_cuda_is_wrong_under_a_name_of_another_backend(call: Call) -> None:
    result = call("verify", "sample", "--variant", ROCM, "--json")
    checks = {check["id"]: check for check in json.loads(result.out)["report"]["checks"]}
    assert result.code == 1
    assert checks["cuda"]["status"] == "wrong"
    assert checks["cuda"]["text"].endswith("rocm6_4-gfx942")
    assert checks["gpu"]["status"] == "unjudged"
