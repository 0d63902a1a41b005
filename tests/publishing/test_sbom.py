"""The bill of materials: what Nix tells of a recipe, before it is built and after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.building.conftest import Place, nix_variables
from tests.cli.conftest import Call
from torchsmith.publishing.sbom import CUDA_TERMS

pytestmark = pytest.mark.needs("nix")
EULA = "CUDA Toolkit End User License Agreement (EULA)"


@pytest.fixture
def unbuilt(nix_here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of this test's own, in which nothing was built."""
    (tmp_path / "nix/conf").mkdir(parents=True)
    (tmp_path / "nix/conf/nix.conf").write_text((nix_here / "conf/nix.conf").read_text())
    for name, value in nix_variables(tmp_path / "nix").items():
        monkeypatch.setenv(name, value)


def bill(call: Call, place: Place, *names: str) -> dict[str, object]:
    said = call("sbom", *names, *place.words("--json"))
    assert said.code == 0, said.err
    found: dict[str, object] = json.loads(said.out)
    return found


@pytest.mark.usefixtures("unbuilt")
def test_an_evaluation_tells_versions_and_licences_of_everything_that_goes_in(
    place: Place, call: Call
) -> None:
    found = bill(call, place, place.vision)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    parts = {one["name"]: one for one in found["components"]}  # type: ignore[attr-defined]
    assert parts["openblas"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert parts["cuda13.0-libcublas"]["licenses"][0]["license"]["name"] == EULA
    assert parts["numactl"]["version"] == "2.0.18"
    assert "licenses" not in parts["numactl"]  # nixpkgs states none: no guess
    assert "cmake" not in parts  # a tool of the build goes into nothing that runs
    below = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}  # type: ignore[attr-defined]
    torch = next(one["bom-ref"] for name, one in parts.items() if name.startswith("pytorch210-"))
    assert parts["openblas"]["bom-ref"] in below[torch]
    vision = next(one["bom-ref"] for name, one in parts.items() if name.startswith("torchvision-"))
    assert torch in below[vision]
    assert below[f"torchsmith:{place.vision}"] == [vision]
    assert bill(call, place, place.vision) == found


@pytest.mark.usefixtures("unbuilt")
def test_people_read_the_terms_that_are_not_free_first(place: Place, call: Call) -> None:
    said = call("sbom", place.torch, *place.words())
    assert said.code == 0
    lines = said.out.splitlines()
    assert EULA in lines[0]
    assert "redistributed" in lines[0]
    assert lines[1].strip().startswith("https://docs.nvidia.com/cuda/eula")
    assert any("cudnn 9.13.0" in line for line in lines)
    assert CUDA_TERMS in " ".join(said.err.split())
    told = bill(call, place, place.torch)["metadata"]["properties"]  # type: ignore[index]
    assert {"name": "torchsmith:cuda_terms", "value": CUDA_TERMS} in told


@pytest.mark.usefixtures("nix_here")
def test_a_built_recipe_is_what_its_result_holds(place: Place, call: Call) -> None:
    assert call("build", place.torch, *place.words()).code == 0
    found = bill(call, place, place.torch)
    assert found["metadata"]["properties"][0]["value"] == "what built results hold"  # type: ignore[index]
    names = {one["name"] for one in found["components"]}  # type: ignore[attr-defined]
    assert any(name.startswith("pytorch210-") for name in names)
    assert "cuda13.0-cuda_nvtx" not in names  # an input that nothing in the result refers to


@pytest.mark.usefixtures("nix_here")
def test_a_recipe_that_does_not_evaluate_has_no_bill(place: Place, call: Call) -> None:
    broken: Path = place.recipe(place.torch)
    broken.write_text('{ }: throw "no such thing"\n')
    said = call("sbom", place.torch, *place.words("--json"))
    assert (said.code, said.out) == (1, "")
    assert "no such thing" in said.err


def test_a_document_that_would_lack_a_recipe_is_not_printed(place: Place, call: Call) -> None:
    place.recipe(place.vision).write_text('{ }: throw "no"\n')
    said = call("sbom", place.torch, place.vision, *place.words("--json"))
    assert (said.code, said.out) == (1, "")
    assert place.vision in said.err
