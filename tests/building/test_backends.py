"""A backend is data: ROCm's cells and recipes, and one that is made up here by data alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import torchsmith
from tests.cli.conftest import Call
from tests.nix.conftest import MINI
from torchsmith.building.jobs import jobs_of_recipes
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.axes import BackendVersion
from torchsmith.core.problem import Problem
from torchsmith.edit.line import propose_line
from torchsmith.edit.pin import Move, propose
from torchsmith.host.cost import cost_of
from torchsmith.matrix import Accelerator, Accepted, BadName, Rejected, Variant, assess, read_name
from torchsmith.matrix.text import products_of
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import find_nix
from torchsmith.record import expect
from torchsmith.workspace.checkout import choose
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
ROCM = "pytorch-python313-rocm6_4-gfx942-avx512"


def codes(name: str) -> list[str]:
    decision = assess(Variant.parse(name, CATALOG), CATALOG)
    return [reason.code for reason in decision.reasons] if isinstance(decision, Rejected) else []


def test_a_name_is_read_and_written_the_same() -> None:
    variant = Variant.parse(ROCM, CATALOG)
    assert variant.name == ROCM
    assert variant.target == Accelerator(BackendVersion("rocm", "6.4"), "gfx942", "rocm6_4-gfx942")
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
    assert call("apply", "-w", str(tmp_path)).code == 0
    recipe = tmp_path / "build-torchaudio/.flox/pkgs/torchaudio-python313-rocm6_4-gfx90a-avx2.nix"
    assert 'export PYTORCH_ROCM_ARCH="gfx90a"' in recipe.read_text()
    assert "- GPU: gfx90a" in recipe.read_text(), "its description"
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
    assert call("apply", "-w", str(nova / "w")).code == 0
    words = ("eval", "-w", str(nova / "w"), "--nixpkgs", str(nova / "tree"), "--json", "--no-cache")
    result = call(*words)
    recipes = json.loads(result.out)["recipes"]
    assert (result.code, len(recipes)) == (0, 3), result.out
    assert all(recipe["evaluated"]["drv_path"] for recipe in recipes)
    name = "pytorch-python313-nova1_2-nv1-avx2"
    shown = json.loads(call("show", name, "-w", str(nova / "w"), "--json").out)
    gpu = shown["build"]["gpu"]
    assert (gpu["cuda"], gpu["sm"]) == ("Nova 1.2", "nv1")


@pytest.mark.needs("nix")
def test_a_tree_tells_which_architectures_it_has_a_set_for(nova: Path) -> None:
    facts = probe(find_nix(), nova / "tree", open_workspace(nova / "w").catalog)
    assert facts["backends"] == {"nova": {"release": "1.2", "archs": ["nv1"]}}


def test_a_line_is_accepted_for_the_backend_that_it_states() -> None:
    decision = assess(Variant.parse(ROCM, CATALOG), CATALOG)
    assert isinstance(decision, Accepted)
    assert decision.line.name == "2.9"


def test_a_build_for_another_backend_is_not_estimated_by_cuda(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "rocm"\n')
    torchsmith.apply(torchsmith.ApplyRequest(workspace=tmp_path))
    recipes = choose([ROCM, ROCM.replace("avx512", "avx2")], open_workspace(tmp_path), tmp_path).recipes
    jobs = jobs_of_recipes(recipes, tmp_path, {}, CATALOG)
    assert [expect(job.work, (), CATALOG, 16).basis for job in jobs] == ["unknown"] * len(jobs)
    cost = cost_of([Variant.parse(job.name, CATALOG) for job in jobs], CATALOG)
    assert (len(jobs), cost.cores, cost.not_estimated) == (2, 0, tuple(job.name for job in jobs))


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
    assert checks["gpu"]["status"] == "wrong"


APPLE = "pytorch-python313-darwin-mps"


def test_a_mac_has_one_cell_and_its_name_leaves_the_instruction_set_out() -> None:
    variant = Variant.parse(APPLE, CATALOG)
    assert (variant.name, variant.isa, variant.arch, str(variant.toolkit)) == (APPLE, "apple_m1", "mps", "")
    assert codes(APPLE) == []
    assert codes("pytorch-python313-cpu-apple_m1") == ["backend-no-system"]
    assert codes("xformers-python313-darwin-mps") == ["package-no-backend"]
    assert "pin-no-package" in codes("vllm-python313-darwin-mps")
    for wrong in (f"{APPLE}-avx2", f"{APPLE}-apple_m1", "pytorch-python313-darwin"):
        with pytest.raises(BadName):
            read_name(wrong, CATALOG)


def test_recipes_for_a_mac_are_right_and_selected_by_their_words(tmp_path: Path, call: Call) -> None:
    block = '[[matrix]]\npython = ["3.13"]\ntarget = ["darwin-mps"]\n'
    settings = f'format = 1\nline = "2.9"\n{block}'
    (tmp_path / "torchsmith.toml").write_text(settings)
    assert call("apply", "-w", str(tmp_path)).code == 0
    assert json.loads(call("audit", str(tmp_path), "--json").out)["findings"] == []
    for word in ("mps", "darwin", "apple_m1", "aarch64-darwin", "gpu"):
        rows = json.loads(call("list", word, "-w", str(tmp_path), "--json").out)["cells"]
        assert {row["system"] for row in rows} == {"aarch64-darwin"}
    readme = (tmp_path / "build-pytorch/README.md").read_text()
    assert "lscpu" not in readme
    assert "docker" not in readme


@pytest.mark.parametrize("profile", ["rocm", "apple"])
def test_a_workspace_without_cuda_packages_no_cuda(profile: str, tmp_path: Path, call: Call) -> None:
    assert call("init", str(tmp_path / "w"), "-p", profile).code == 0
    assert "cudatoolkit" not in (tmp_path / "w/torchsmith.toml").read_text()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--gpu", "MI300X", "--cpu", "zen4"), ["pytorch-python313-rocm6_4-gfx942-avx512"]),
        (
            ("--gpu", "Vega 64", "--cpu", "zen2"),
            ["pytorch-python313-cpu-avx2"],
        ),  # its own is not in the profile
        (("--system", "aarch64-darwin"), [APPLE]),
        (
            ("--gpu", "RX 7900 XTX", "--gpu", "RTX 3060", "--cpu", "zen4", "--driver", "570.124.06"),
            ["pytorch-python313-cuda12_8-sm86-avx512", "pytorch-python313-rocm6_4-gfx1100-avx512"],
        ),
        (("--gpu", "RX 6700 XT", "--cpu", "zen3"), ["pytorch-python313-cpu-avx2"]),
    ],
)
def test_pick_offers_each_gpu_a_cell_of_its_own_maker(
    words: tuple[str, ...], names: list[str], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = json.loads(call("pick", *words, "--json").out)
    assert [row["name"] for row in report["choice"]] == names
    for row in report["choice"]:
        assert all((gpu in row["name"]) for gpu in row["gpus"])
    created = [row["name"] for row in report["create"]]
    assert created == (["pytorch-python313-rocm6_4-gfx900-avx2"] if "Vega 64" in words else [])


def test_a_fleet_of_three_makers_is_served_by_cells_of_each(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.csv").write_text(
        "name,count,system,cpu,gpu,driver\n"
        "hopper,4,,zen4,H100,580.65.06\n"
        "instinct,3,,zen4,MI300X,\n"
        "mac,2,aarch64-darwin,,,\n"
        "both,1,,zen4,RTX 4090 + RX 7900 XTX,580.65.06\n"
        "old,1,,zen3,RX 6700 XT,\n"
    )
    report = json.loads(call("cover", "fleet.csv", "--json").out)
    served = {row["kinds"][0] + ":" + ",".join(row["gpus"] or []): row["variant"] for row in report["served"]}
    assert served == {
        "hopper:sm90": "pytorch-python313-cuda13_0-sm90-avx512",
        "instinct:gfx942": "pytorch-python313-rocm6_4-gfx942-avx512",
        "mac:mps": APPLE,
        "both:sm89": "pytorch-python313-cuda13_0-sm89-avx512",
        "both:gfx1100": "pytorch-python313-rocm6_4-gfx1100-avx512",
        "old:gfx1031": None,
    }
    assert report["plan"]["not_served"] == 1


@pytest.mark.parametrize("target", ["rocm6_4-gfx942", "darwin-mps"])
def test_pin_moves_the_builds_of_other_backends(target: str, tmp_path: Path) -> None:
    isa = "" if target == "darwin-mps" else 'isa = ["avx2"]\n'
    block = f'[[matrix]]\npython = ["3.13"]\ntarget = ["{target}"]\n{isa}'
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\n{block}')
    nobody_asked = "0123456789012345678901234567890123456789"
    after = propose(open_workspace(tmp_path), Move("2.9", nobody_asked)).after
    cell = after.matrix.cells[0]
    build = after.catalog.lines["2.9"].build_for(cell.variant.toolkit)
    assert (str(cell.variant.target), build and build.pin) == (target, nobody_asked[:7])


def test_a_nixpkgs_with_another_release_of_a_backend_is_refused(tmp_path: Path) -> None:
    block = '[[matrix]]\npython = ["3.13"]\ntarget = ["rocm6_4-gfx942"]\nisa = ["avx2"]\n'
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\n{block}')
    with pytest.raises(Problem, match=r"45dbc76 has no ROCm 6\.4"):
        propose(open_workspace(tmp_path), Move("2.9", "45dbc76"))


def test_a_line_is_added_for_the_releases_that_a_nixpkgs_has(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "rocm"\n')
    pairs = {"torchvision": "0.24.1", "torchaudio": "2.9.1"}
    line = propose_line(
        open_workspace(tmp_path), "mine", Move("2.9", "45dbc76", torch="2.9.1", versions=pairs)
    ).after
    backends = line.catalog.lines["mine"].backends
    assert {name: [*releases] for name, releases in backends.items()} == {"rocm": ["7.1"], "mps": [""]}
    name = "pytorch-python313-rocm7_1-gfx1150-avx2"
    assert isinstance(assess(Variant.parse(name, line.catalog), line.catalog, "mine"), Accepted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(gfx942) and", "(gfx90a) and"),
        ("with ROCm 6.4 for", "with ROCm 6.3 for"),
        ("with ROCm 6.4 for", "with CUDA 13.0 for"),
        ("with ROCm 6.4 for", "with ROCm 6.4 on SM90 for"),
    ],
)
def test_a_description_is_held_against_the_backend_of_the_name(
    old: str, new: str, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\ninclude = ["{ROCM}"]\n')
    assert call("apply", "-w", str(tmp_path)).code == 0
    recipe = tmp_path / f"build-pytorch/.flox/pkgs/{ROCM}.nix"
    assert old in recipe.read_text()
    recipe.write_text(recipe.read_text().replace(old, new))
    findings = json.loads(call("audit", str(recipe), "--json").out)["findings"]
    assert "TS601" in {finding["rule"] for finding in findings}
