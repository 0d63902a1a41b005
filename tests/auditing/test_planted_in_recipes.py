"""Mistakes in recipes that torchsmith does not manage, and the rule that names each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from tools.rule_examples import CPU, NAME, VISION, right_texts
from torchsmith.auditing.run import audit
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.tool import find_nix

TEXTS = {name: right_texts()[name].partition("\n")[2] for name in (NAME, VISION, CPU)}
TORCH = TEXTS[NAME]
PHASE = TORCH[TORCH.index("preConfigure = (oldAttrs") : TORCH.index("passthru = oldAttrs")]
MAGMA = TORCH[TORCH.index("      # MAGMA 2.9.0") : TORCH.index("      # torch 2.10.0")]
FLAGS = "preConfigure = ''\n        export CFLAGS=\"${toString cpuFlags}\"\n      '';\n"
PNAME, TARGETS, SUPPORT = (
    'pname = "pytorch210',
    "gpuTargets = [ gpuArchSM ];",
    "cudaSupport = true;\n      gpu",
)
CELL = "-python313-cuda13_0-sm120"
CAPABILITIES = 'cudaCapabilities = [ "12.0" ];'
CUDA, PIN = "final.cudaPackages_13_0;", "6a030d535719c5190187c4cec156f335e95e3211"
BY_NIX = "Nix"  # stops at it and says why, so that no rule is needed
# A recipe, what is wrong, the right text and the wrong one, and the rule that names it, if one does.
MISTAKES: list[tuple[str, str, str, str, str]] = [
    (NAME, "number in gpuTargets", TARGETS, "gpuTargets = [ 12.0 ];", BY_NIX),
    (NAME, "string for gpuTargets", TARGETS, "gpuTargets = gpuArchSM;", BY_NIX),
    (NAME, "notation of CMake", TARGETS, 'gpuTargets = [ "120" ];', "TS402"),
    (NAME, "notation of nvcc", TARGETS, 'gpuTargets = [ "sm_120" ];', "TS402"),
    (NAME, "number in cudaCapabilities", CAPABILITIES, "cudaCapabilities = [ 12.0 ];", BY_NIX),
    (NAME, "string for cudaCapabilities", CAPABILITIES, 'cudaCapabilities = "12.0";', BY_NIX),
    (NAME, "misspelt setting", CAPABILITIES, 'cudaCapability = [ "12.0" ];', "TS811"),
    (NAME, "misspelt argument", TARGETS, "gpuTarget = [ gpuArchSM ];", BY_NIX),
    (NAME, "preConfigure replaced", PHASE, FLAGS, "TS810"),
    (NAME, "postPatch replaced", 'postPatch = (oldAttrs.postPatch or "") + ', "postPatch = ", "TS810"),
    (NAME, "compiler flags as an attribute", PNAME, f'NIX_CFLAGS_COMPILE = "-O3"; {PNAME}', BY_NIX),
    (NAME, "another target as an attribute", PNAME, f'TORCH_CUDA_ARCH_LIST = "8.6"; {PNAME}', "TS401"),
    (NAME, "marked broken", "broken = false;", "broken = true;", "TS306"),
    (NAME, "meta replaced", "meta = oldAttrs.meta // {", "meta = {", ""),
    (NAME, "argument in overrideAttrs", PNAME, f"cudaSupport = true; {PNAME}", ""),
    (NAME, "tests in the build", PNAME, f"doCheck = true; {PNAME}", ""),
    (NAME, "ccacheStdenv", SUPPORT, f"stdenv = pkgs.ccacheStdenv; {SUPPORT}", ""),
    (NAME, "boolean as a string", SUPPORT, 'cudaSupport = "true";\n      gpu', "TS407"),
    (NAME, "no CUDA", SUPPORT, "cudaSupport = false;\n      gpu", "TS407"),
    (NAME, "patch of MAGMA dropped", MAGMA, "", "TS301"),
    (NAME, "digit of a hash", "sha256-i9InbxD5", "sha256-i9InbxD6", "TS903"),
    (NAME, "no submodules", "fetchSubmodules = true;", "fetchSubmodules = false;", "TS906"),
    (NAME, "version of another release", 'version = "2.10.0";', 'version = "2.9.1";', "TS903"),
    (NAME, "tag without v", 'rev = "v${version}"', 'rev = "${version}"', "TS905"),
    (NAME, "platforms of ARM", 'platforms = [ "x86_64-linux" ]', 'platforms = [ "aarch64-linux" ]', "TS505"),
    (NAME, "no system", '    system = "x86_64-linux";\n', "", "TS206"),
    (NAME, "unfree not allowed", "allowUnfree = true;", "", "TS208"),
    (NAME, "flag that no compiler has", '"-mavx512f"', '"-mavx512"', "TS501"),
    (NAME, "flags that reach nothing", "${toString cpuFlags} -fmessage", "-fmessage", "TS502"),
    (NAME, "misspelt variable", "export CXXFLAGS=", "export CXXFLAG=", "TS502"),
    (NAME, "another GPU", 'gpuArchSM = "12.0"', 'gpuArchSM = "12.1"', "TS401"),
    (NAME, "digit of the pin", PIN, f"{PIN[:-1]}2", "TS201"),
    (NAME, "branch for a pin", f"archive/{PIN}", "archive/nixos-unstable", "TS205"),
    (NAME, "CUDA of another release", CUDA, "final.cudaPackages_12_8;", "TS304"),
    (NAME, "CUDA that does not exist", CUDA, "final.cudaPackages_130;", "TS304"),
    (NAME, "pname of another build", PNAME + CELL, PNAME + CELL.replace("sm120", "sm90"), "TS105"),
    (CPU, "CUDA in a CPU recipe", "cudaSupport = false;", "cudaSupport = true;", "TS407"),
    (VISION, "companion without its torch", "torch = customPytorch;\n}).", "}).", "TS702"),
    (VISION, "torch not propagated", "++ [ customPytorch.out ];\n\n  preConf", ";\n\n  preConf", "TS703"),
]  # fmt: skip
PROPAGATED = "propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or [ ]) ++ [ customPytorch.out ]"
OTHER = "import ./pytorch-python313-cuda13_0-sm90-avx2.nix { }"
MORE: list[tuple[str, str, str, str, str]] = [
    (NAME, "GPU without a point", 'gpuArchSM = "12.0"', 'gpuArchSM = "12"', "TS402"),
    (NAME, "capabilities of another GPU", CAPABILITIES, 'cudaCapabilities = [ "9.0" ];', "TS401"),
    (NAME, "assert of another CUDA", 'Version == "13.0"', 'Version == "12.8"', "TS804"),
    (NAME, "another Python", "(pkgs.python3Packages.torch", "(pkgs.python312Packages.torch", "TS207"),
    (NAME, "release without its hash", 'version = "2.10.0";', 'version = "2.11.0";', "TS903"),
    (NAME, "system of ARM", 'system = "x86_64-linux"', 'system = "aarch64-linux"', "TS206"),
    (NAME, "platform of macOS", 'platforms = [ "x86_64-', 'platforms = [ "x86_64-darwin" "x86_64-', "TS505"),
    (NAME, "list in a string", '"${toString cpuFlags} -f', '"${cpuFlags} -f', BY_NIX),
    (NAME, "++ of a string", '(oldAttrs.preConfigure or "")', '(oldAttrs.preConfigure or "") ++ ""', BY_NIX),
    (NAME, "+ of a list", "(oldAttrs.cmakeFlags or [ ]) ++", "(oldAttrs.cmakeFlags or [ ]) +", BY_NIX),
    (NAME, "passthru replaced", "passthru = oldAttrs.passthru // {", "passthru = {", "TS810"),
    (NAME, "list exported", "export TERM=dumb", 'export TORCH_CUDA_ARCH_LIST="9.0"', "TS401"),
    (NAME, "argument renamed", "(oldAttrs: {\n      pname", "(old: {\n      pname", "TS805"),
    (NAME, "fakeHash", '"sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ="', "prev.lib.fakeHash", "TS902"),
    (CPU, "flag of another CPU", '"-mfma"', '"-mfma4"', "TS501"),
    (VISION, "pname of another GPU", f"torchvision{CELL}", "torchvision-python313-cuda13_0-sm90", "TS105"),
    (VISION, "stock torch", "torch = customPytorch;\n})", "torch = pkgs.python3Packages.torch;\n})", "TS702"),
    (VISION, "torch of another cell", "torch = customPytorch;\n})", f"torch = {OTHER};\n}})", "TS702"),
    (VISION, "torch without out", PROPAGATED, PROPAGATED.replace(".out", ""), "TS703"),
    (VISION, "inputs replaced", PROPAGATED, "propagatedBuildInputs = [ customPytorch.out ]", ""),
    (VISION, "version without its source", 'version = "0.25.0";', 'version = "0.24.0";', "TS701"),
]  # fmt: skip


def rules(name: str, text: str, root: Path) -> set[str]:
    (pkgs := root / ".flox/pkgs").mkdir(parents=True, exist_ok=True)
    (pkgs / f"{name}.nix").write_text(text)
    return {finding.rule for finding in audit((root,)).findings}


@pytest.mark.parametrize("mistake", MISTAKES + MORE, ids=[mistake[1] for mistake in MISTAKES + MORE])
def test_a_mistake_is_named(mistake: tuple[str, str, str, str, str], tmp_path: Path) -> None:
    name, _, right, wrong, rule = mistake
    text = TEXTS[name].replace(right, wrong)
    assert text != TEXTS[name]
    assert rule in ("", BY_NIX) or rule in rules(name, text, tmp_path)


def test_most_mistakes_are_named() -> None:
    named = [[rule for *_, rule in listed if rule not in ("", BY_NIX)] for listed in (MISTAKES, MORE)]
    assert [(len(MISTAKES), len(named[0])), (len(MORE), len(named[1]))] == [(39, 29), (21, 17)]


@pytest.mark.needs("nix")
def test_nix_stops_at_mistakes_that_no_rule_is_about(tmp_path: Path) -> None:
    requests: list[EvaluationRequest] = []
    for name, what, right, wrong, rule in MISTAKES + MORE:
        if rule == BY_NIX:
            (file := tmp_path / f"{len(requests)}.nix").write_text(TEXTS[name].replace(right, wrong))
            requests.append(EvaluationRequest(what, file, "x86_64-linux"))
    results = evaluate(requests, find_nix(), EvaluationOptions(trees={"default": MINI}))
    said = {result.name: result.cause.message for result in results if result.cause}
    assert said.keys() == {request.name for request in requests}
    assert all(re.search("string|list|gpuTarget|attribute", message) for message in said.values())


@pytest.mark.parametrize("name", TEXTS)
def test_a_right_recipe_of_another_hand_has_no_error(name: str, tmp_path: Path) -> None:
    assert rules(name, TEXTS[name], tmp_path) <= {"TS204", "TS801"}
