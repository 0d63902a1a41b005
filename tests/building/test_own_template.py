"""A package that nixpkgs lacks: a template of the workspace's own, and every verb knows its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.building.conftest import CELL, SMALL, TOML, Place
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder

BLEND = f"torchblend-{CELL}"
SOURCE = ("--source", "github:example/mix", "--version", "1.2.0")
TEMPLATE = """\
# TorchBlend, which nixpkgs lacks, written as nixpkgs writes its packages.
{ lib, buildPythonPackage, fetchFromGitHub, torch, numpy, ninja, which }:

buildPythonPackage {
  pname = "torchblend";
  version = "@version@";
  format = "setuptools";
  stdenv = torch.stdenv;

  src = fetchFromGitHub {
    owner = "@sourceOwner@";
    repo = "@sourceRepo@";
    rev = "@sourceTag@";
    hash = "@sourceHash@";
  };

  nativeBuildInputs = [ ninja which ] ++ lib.optionals torch.cudaSupport [ torch.cudaPackages.cuda_nvcc ];
  dependencies = [ numpy torch ];
  #? if cuda
  env.TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" torch.cudaCapabilities;
  #? end

  buildPhase = ''
    runHook preBuild
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${torch}/$sitePackages/torch/utils python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/torchmix $out/$sitePackages/torchmix
    runHook postInstall
  '';
  pythonImportsCheck = [ "torchmix" ];

  meta.description = "Blends tensors";
  meta.platforms = lib.platforms.linux;
}
"""
LIST = 'lib.concatStringsSep ";" torch.cudaCapabilities'


def make(root: Path, template: str = TEMPLATE) -> Place:
    for folder, name, text in (
        ("catalog", "estimates.toml", SMALL),
        ("templates", "torchblend.nix", template),
        (".", "torchsmith.toml", TOML),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / name).write_text(text)
    return Place(root)


def rules(call: Call, place: Place, *words: str) -> set[str]:
    return {
        one["rule"] for one in json.loads(call("audit", str(place.root), "--json", *words).out)["findings"]
    }


@pytest.mark.needs("nix")
@pytest.mark.long
def test_it_goes_all_the_way(tmp_path: Path, nix_here: Path, call: Call) -> None:
    place = make(tmp_path)
    added = call(*place.words("package", "add", "torchblend", *SOURCE))
    assert added.code == 0, added.err
    assert call(*place.words("apply")).code == 0
    assert rules(call, place) == {"TS901"}, "the source's hash is still to be learned"
    assert call(*place.words("fix-hashes", "package:torchblend")).code == 0
    assert rules(call, place, "--eval") == set()
    graph = json.loads(call(*place.words("eval", "--graph", "--json")).out)["graph"]
    torch = [set(one["recipes"]) for one in graph["long_builds"] if one["kind"] == "pytorch"]
    assert torch == [{place.torch, place.vision, BLEND}], "one torch, as for any package"
    assert call(*place.words("build", BLEND)).code == 0
    result = str(state_folder(place.root) / "results" / BLEND)
    report = json.loads(call(*place.words("verify", result, "--json")).out)["report"]
    gpu = next(check for check in report["checks"] if check["id"] == "gpu")
    assert (report["variant"], gpu["status"]) == (BLEND, "right")


@pytest.mark.needs("nix")
def test_the_audit_judges_what_a_template_says(tmp_path: Path, nix_here: Path, call: Call) -> None:
    place = make(tmp_path, template=TEMPLATE.replace(LIST, '"8.0"'))
    assert call(*place.words("package", "add", "torchblend", *SOURCE)).code == 0
    assert call(*place.words("apply")).code == 0
    assert rules(call, place) == {"TS901", "TS401"}


@pytest.mark.needs("nix")
@pytest.mark.parametrize(
    ("old", "new", "line", "code", "said"),
    [
        ("[ numpy torch ]", "[ numpy torch ", 18, "invalid", "Nix"),
        ("@sourceTag@", "@sourceTga@", 13, "template-error", "sourceTag?"),
        ("#? if cuda", "#? when cuda", 19, "template-error", "`#? when cuda`"),
        ("  #? end\n", "", 19, "template-error", "`#? if cuda`"),
        ("#? if cuda", "#? end", 19, "template-error", "`#? end`"),
        ("#? if cuda", "#? include other.nix\n#? if cuda", 19, "template-error", " other.nix"),
        ("#? if cuda", "#? include ../x.nix\n#? if cuda", 19, "template-error", " ../x.nix"),
        ("#? if cuda", "#? include torchblend.nix\n#? if cuda", 19, "template-error", "torchblend.nix "),
    ],
)
def test_a_mistake_is_told_with_the_file_and_line(
    old: str, new: str, line: int, code: str, said: str, tmp_path: Path, nix_here: Path, call: Call
) -> None:
    place = make(tmp_path)
    assert call(*place.words("package", "add", "torchblend", *SOURCE)).code == 0
    (tmp_path / "templates/torchblend.nix").write_text(TEMPLATE.replace(old, new))
    for words in (("apply",), ("apply", "--check")):
        result = call(*place.words(*words, "--json"))
        error = json.loads(result.out)["error"]
        assert (result.code, error["code"], bool(error["hint"])) == (2, code, True), error
        assert said in f"{error['message']} {error['hint']}"
        assert error["where"].endswith(f"templates/torchblend.nix:{line}")


@pytest.mark.needs("nix")
def test_an_error_of_nix_names_the_line_of_the_template(tmp_path: Path, nix_here: Path, call: Call) -> None:
    place = make(tmp_path, template=TEMPLATE.replace("[ numpy torch ]", "[ nompy torch ]"))
    error = json.loads(call(*place.words("package", "add", "torchblend", *SOURCE, "--json")).out)["error"]
    assert "templates/torchblend.nix:18: " in error["message"]
    assert "'nompy'" in error["message"]


@pytest.mark.needs("nix")
def test_a_template_that_asks_for_a_release_is_told_that_none_is_known(
    tmp_path: Path, nix_here: Path, call: Call
) -> None:
    place = make(tmp_path)
    error = json.loads(call(*place.words("package", "add", "torchblend", "--json")).out)["error"]
    assert (error["code"], "@version@" in error["message"]) == ("template-error", True)
    assert error["where"].endswith("torchblend.nix:6")


@pytest.mark.needs("nix")
def test_a_template_may_include_its_neighbours(tmp_path: Path, nix_here: Path, call: Call) -> None:
    lines = TEMPLATE.splitlines(keepends=True)
    head, phases, rest = lines[:22], lines[22:32], lines[32:]
    place = make(tmp_path, template="".join([*head, "  #? include phases.nix\n", *rest]))
    (tmp_path / "templates/phases.nix").write_text("".join(phases))
    assert call(*place.words("package", "add", "torchblend", *SOURCE)).code == 0
    assert call(*place.words("apply")).code == 0
    assert "cp -r build/torchmix" in (tmp_path / f"build-torchblend/.flox/pkgs/{BLEND}.nix").read_text()
