"""With Nix and a nixpkgs at hand, `--eval` confirms or drops what a rule is not sure of in expressions."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.auditing.decide import EVALUATED, decided
from torchsmith.auditing.finding import Finding, Severity, Sure
from torchsmith.auditing.run import audit
from torchsmith.core.problem import Where

MINI = Path(__file__).parents[1] / "nixpkgs-mini"
pytestmark = pytest.mark.needs("nix")
OVERLAY = """final: prev: {
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [ (pyFinal: pyPrev: {
    torch = pyPrev.torch.override { cudaPackages = final.cudaPackages_12_%s; };
  }) ];
}
"""
OTHER_FILE = "inherit (import ./more.nix) gpuTargets;"
FLAKE = """{
  outputs = { self, nixpkgs }:
    let pkgs = import nixpkgs {
      system = "x86_64-linux";
      config = { allowUnfree = true; cudaSupport = true; };
    };
    in { packages.x86_64-linux.default = pkgs.python3Packages.torch.override {
      cudaPackages = pkgs.cudaPackages_12_6;
    }; };
}
"""


def found(folder: Path, rule: str, *, evaluate: bool) -> list[Finding]:
    trees = {"default": MINI} if evaluate else {}
    findings = audit((folder,), jobs=1, evaluate=evaluate, trees=trees).findings
    return [finding for finding in findings if finding.rule == rule]


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("overlay.nix", OVERLAY % "6", True),
        ("overlay.nix", OVERLAY % "8", False),  # which is the default of that nixpkgs
        ("overlay.nix", OVERLAY.replace("{ cuda", f"{{ {OTHER_FILE} cuda") % "8", False),
        ("flake.nix", FLAKE, True),
    ],
)
def test_nix_confirms_or_drops_that_torch_is_broken(
    name: str, text: str, wrong: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "more.nix").write_text('{ gpuTargets = [ "8.9" ]; }')
    assert [one.sure for one in found(tmp_path, "TS310", evaluate=False)] == [Sure.LIKELY]
    assert [one.sure for one in found(tmp_path, "TS310", evaluate=True)] == [Sure.CERTAIN] * wrong
    assert {path.name for path in tmp_path.iterdir()} == {name, "more.nix"}


PACKAGE = "{ torch, cudaPackages_12_%s }: torch.override { cudaPackages = cudaPackages_12_%s; }"
MODULE = "{ pkgs, lib, ... }: { services.foo.enable = lib.nonsense; nixpkgs.overlays = [ (%s) ]; }"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (PACKAGE % ("6", "6"), True),
        (PACKAGE % ("8", "8"), False),
        (MODULE % (OVERLAY % "6"), True),
        (MODULE % (OVERLAY % "8"), False),
    ],
)
def test_package_functions_and_modules_are_decided(text: str, wrong: bool, tmp_path: Path) -> None:
    (tmp_path / "some.nix").write_text(text)
    assert [one.sure for one in found(tmp_path, "TS310", evaluate=False)] == [Sure.LIKELY]
    assert [one.sure for one in found(tmp_path, "TS310", evaluate=True)] == [Sure.CERTAIN] * wrong


def test_what_does_not_evaluate_by_itself_stays_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "package.nix").write_text((PACKAGE % ("6", "6")).replace("torch,", "torch, nobody,"))
    [finding] = found(tmp_path, "TS310", evaluate=True)
    assert finding.sure is Sure.LIKELY
    assert "--eval" in finding.hint


def test_a_setting_is_looked_for_in_the_nixpkgs(tmp_path: Path) -> None:
    (tmp_path / "module.nix").write_text("{ nixpkgs.config = { cudaSupport = true; cudnnSupport = true; }; }")
    assert [one.sure for one in found(tmp_path, "TS811", evaluate=False)] == [Sure.LIKELY]
    assert [one.sure for one in found(tmp_path, "TS811", evaluate=True)] == [Sure.CERTAIN]


def test_a_search_that_fails_proves_nothing(tmp_path: Path) -> None:
    at = Where(str(tmp_path / "module.nix"), 1, 1)
    unsure = Finding("TS811", "", Severity.NOTE, at, "", sure=Sure.LIKELY, about="cudnnSupport")
    assert [one.sure for one in decided([unsure], {"default": tmp_path / "gone"})] == [Sure.LIKELY]
    assert [one.sure for one in decided([unsure], {"default": MINI})] == [Sure.CERTAIN]


def test_another_error_that_mentions_env_does_not_confirm_an_overlap(tmp_path: Path) -> None:
    at = Where(str(tmp_path / "package.nix"), 1, 1)
    (tmp_path / "package.nix").write_text('{ torch }: throw "no env here, and nothing is broken"')
    for rule in EVALUATED:
        unsure = Finding(rule, "", Severity.NOTE, at, "", sure=Sure.LIKELY)
        assert [one.sure for one in decided([unsure], {"default": MINI})] == [Sure.LIKELY]
