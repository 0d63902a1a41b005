"""A package added by data alone: a workspace's packages.toml, and every verb follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.building.conftest import CELL, SMALL, TOML, Place
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder

pytestmark = pytest.mark.needs("nix")
PACKAGES = """\
[torchmix]
title = "TorchMix"
attr = "torchmix"
needs = ["pytorch"]
modules = ["torchmix"]
source = "the miniature"

[cudasort]
title = "CudaSort"
attr = "cudasort"
needs_cuda = true
modules = ["cudasort"]
libraries = ["libcudasort"]
gpu_list = { by = "variable", name = "CUDASORT_ARCHS", form = "90" }
trial = "assert cudasort.__name__ == 'cudasort'"
source = "the miniature"
"""
MIX, SORT = f"torchmix-{CELL}", f"cudasort-{CELL}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "catalog").mkdir(parents=True)
    (tmp_path / "catalog/estimates.toml").write_text(SMALL)
    (tmp_path / "catalog/packages.toml").write_text(PACKAGES)
    wanted = '"pytorch", "torchvision", "torchmix", "cudasort"'
    (tmp_path / "torchsmith.toml").write_text(TOML.replace('"pytorch", "torchvision"', wanted))
    return Place(tmp_path)


def test_a_package_of_a_workspace_goes_all_the_way_by_data_alone(
    place: Place, nix_here: Path, call: Call
) -> None:
    listed = json.loads(call(*place.words("list", "--json")).out)["cells"]
    assert {MIX, SORT} <= {cell["name"] for cell in listed}
    assert call(*place.words("apply")).code == 0
    judged = call("audit", str(place.root), "--eval", "--json")
    assert (judged.code, json.loads(judged.out)["findings"]) == (0, []), judged.out
    built = call(*place.words("build"))
    assert built.code == 0, built.err
    for name in (MIX, SORT):
        result = str(state_folder(place.root) / "results" / name)
        report = json.loads(call(*place.words("verify", result, "--json")).out)["report"]
        assert (report["variant"], report["ok"]) == (name, True), report["checks"]
        gpu = next(check for check in report["checks"] if check["id"] == "gpu")
        assert gpu["status"] == "right"
    tried = call(*place.words("test", str(state_folder(place.root) / "results" / SORT)))
    assert tried.code == 0, tried.out + tried.err
    picked = call(*place.words("pick", "--package", "torchmix", "--names", *machine()))
    assert picked.out.split() == [MIX]


def machine() -> tuple[str, ...]:
    sm, isa = CELL.split("-")[-2:]
    return ("--gpu", sm, "--isa", isa, "--driver", "580.65.06")


def test_its_torch_is_the_cells_own(place: Place, nix_here: Path, call: Call) -> None:
    assert call(*place.words("apply")).code == 0
    graph = json.loads(call(*place.words("eval", "--graph", "--json")).out)["graph"]
    torch = [set(one["recipes"]) for one in graph["long_builds"] if one["kind"] == "pytorch"]
    assert torch == [{place.torch, place.vision, MIX}], "one torch for all that need it, none for the rest"
    assert {MIX, SORT} <= set(graph["recipes"])


def test_what_needs_cuda_has_no_cell_without_it(place: Place, call: Call) -> None:
    name = f"cudasort-python313-cpu-{CELL.split('-')[-1]}"
    answer = json.loads(call(*place.words("show", name, "--json")).out)
    assert (answer["verdict"], answer["codes"]) == ("rejected", ["package-needs-cuda"])
