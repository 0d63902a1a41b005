"""A wrong and a right example for each rule of the audit. The tests try those of CHANGES on whole recipes."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from tools.mutations.harness import right_recipes
from torchsmith.auditing.rule import Rule

NAME = "pytorch-python313-cuda13_0-sm120-avx512"
AUDIO = "torchaudio-python313-cuda13_0-sm120-avx512"
VISION = "torchvision-python313-cuda13_0-sm120-avx512"
CPU = "pytorch-python313-cpu-avx512bf16"
ROCM = "pytorch-python313-rocm6_4-gfx1100-avx2"
NARROWED = re.compile(r"\n +cuda(?:Capabilities|ForwardCompat) = .*# .*")
NEED_A_WIDE_SET = ("TS405", "TS409")  # rules on torch's own target, silent if all of nixpkgs is narrowed


@cache
def right_texts(narrowed: bool = True) -> dict[str, str]:
    """Right recipes by name; without `narrowed` nixpkgs is not limited to the recipe's GPU."""
    texts = {recipe.name: recipe.text for recipe in right_recipes()}
    return texts if narrowed else {name: NARROWED.sub("", text) for name, text in texts.items()}


def example(rule: Rule) -> tuple[str, str]:
    """A wrong and a right text for a rule: a part of a recipe that the tests change, files, or a sketch."""
    for id, name, right, wrong in CHANGES:
        if id == rule.id:
            text = right_texts(id not in NEED_A_WIDE_SET)[name]
            return _changed_lines(text, text.replace(right, wrong))
    sketch = sketches()[rule.id]
    bad, good = sketch["wrong"], sketch["right"]
    if isinstance(bad, str) or isinstance(good, str):
        return str(bad).rstrip("\n"), str(good).rstrip("\n")
    return _shown_files(bad, good), _shown_files(good, bad)


Files = Mapping[str, str]  # the text of each file of a repository


@cache
def sketches() -> dict[str, dict[str, str | Files]]:
    """Examples of rules that no single change of one recipe shows: files, repositories, or sketches."""
    return tomllib.loads(Path(__file__).with_name("rule_sketches.toml").read_text())


def text_of(path: str, text: str) -> str:
    """A file of an example as it is in its repository."""
    if not text.startswith("@"):
        return text
    name, _, change = text[1:].partition(" ")
    recipe = right_texts()[name or Path(path).stem]
    old, _, new = change.partition(" -> ")
    assert old in recipe, f"the recipe no longer has {old}"
    return recipe.replace(old, new) if old else recipe


def _shown_files(files: Files, others: Files) -> str:
    """A repository as a page shows it: of whole recipes what differs from the other example."""
    blocks = []
    for path, text in files.items():
        shown = "" if text.startswith("@") else text
        if path in others and text != others[path] and (text + others[path]).count("@"):
            shown = _changed_lines(text_of(path, text), text_of(path, others[path]))[1]
        blocks.append(f"# {path}\n{shown}".rstrip("\n"))
    return "\n".join(blocks)


def _changed_lines(good: str, bad: str) -> tuple[str, str]:
    """The lines that differ in two texts, with one line around them, and no comments."""
    right, wrong = (COMMENT.sub("", text).splitlines() for text in (good, bad))
    changes = SequenceMatcher(None, right, wrong, autojunk=False).get_opcodes()
    _, right_from, right_to, wrong_from, wrong_to = next(change for change in changes if change[0] != "equal")
    return (
        _shown(wrong[max(wrong_from - 1, 0) : wrong_to + 1]),
        _shown(right[max(right_from - 1, 0) : right_to + 1]),
    )


def _shown(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(line for line in lines if line.strip()))


COMMENT = re.compile(r"^ *# .*\n|(?<=\S) *# .*|\n(?=\n)", re.MULTILINE)
VERSION = "export PYTORCH_BUILD_VERSION=${oldAttrs.version}"
# A right recipe and the mistake that a rule finds in it: rule, recipe, right text, wrong text.
CHANGES: list[tuple[str, str, str, str]] = [
    (
        "TS105",
        NAME,
        'pname = "pytorch210-python313-cuda13_0-sm120',
        'pname = "pytorch210-python313-cuda13_0-sm90',
    ),
    ("TS106", NAME, 'pname = "pytorch210-python313-cuda13_0-sm120-avx512";', ""),
    ("TS201", NAME, "6a030d535719c5190187c4cec156f335e95e3211", "fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3"),
    ("TS205", NAME, "archive/6a030d535719c5190187c4cec156f335e95e3211", "archive/master"),
    ("TS206", NAME, 'system = "x86_64-linux"', 'system = "aarch64-linux"'),
    ("TS207", NAME, "pkgs.python3Packages.torch", "pkgs.python312Packages.torch"),
    ("TS208", NAME, "allowUnfree = true;", ""),
    ("TS209", NAME, "cudaSupport = true;\n      cudaCap", "cudaCap"),
    ("TS301", NAME, "(final: prev: { cudaPackages = final.cudaPackages_13_0; })", ""),
    ("TS303", NAME, "overlays = [", "overlays = [ (final: prev: { magma = prev.magma; })"),
    ("TS304", NAME, "final.cudaPackages_13_0;", "final.cudaPackages_12_8;"),
    ("TS305", NAME, VERSION, f"{VERSION}\n          export USE_MAGMA=0"),
    (
        "TS306",
        NAME,
        "broken = false; # the pin objects to CUDA 13 alone, which the fixes above answer",
        "",
    ),
    ("TS308", NAME, "patches = [ ];", ""),
    ("TS401", NAME, 'gpuArchSM = "12.0"', 'gpuArchSM = "9.0"'),
    ("TS401", ROCM, "rocmPackages.gfx1100", "rocmPackages.gfx1030"),
    ("TS401", ROCM, "export TERM=dumb", "export PYTORCH_ROCM_ARCH=gfx1030"),
    ("TS401", ROCM, "cudaSupport = false;", 'gpuTargets = [ "gfx1030" ];'),
    ("TS401", ROCM, "cudaSupport = false;", 'gpuTargets = [ "9.0" ];'),
    ("TS405", ROCM, "(final: prev: { rocmPackages = prev.rocmPackages.gfx1100; })", ""),
    ("TS407", ROCM, "rocmSupport = true;", ""),
    ("TS402", NAME, 'gpuArchSM = "12.0"', 'gpuArchSM = "sm_120"'),
    ("TS405", NAME, "gpuTargets = [ gpuArchSM ];", ""),
    ("TS406", NAME, "python3Packages.torch.override", "python3Packages.pytorch.override"),
    ("TS407", NAME, "cudaSupport = true;\n      gpuTargets", "cudaSupport = false;\n      gpuTargets"),
    ("TS408", CPU, "cudaSupport = false;", 'cudaSupport = false; gpuTargets = [ "9.0" ];'),
    ("TS409", VISION, "cudaCapabilities = [ gpuArchSM ];", ""),
    ("TS410", "pytorch-python313-cuda13_0-sm110-armv9", 'cudaCapabilities = [ "11.0" ];', ""),
    ("TS410", NAME, 'cudaCapabilities = [ "12.0" ];', ""),
    ("TS410", NAME, 'cudaCapabilities = [ "12.0" ];', "cudaCapabilities = [ ];"),
    ("TS410", NAME, "cudaForwardCompat = false;", ""),
    ("TS410", NAME, "cudaForwardCompat = false;", "cudaForwardCompat = true;"),
    ("TS501", NAME, '"-mfma"', '"-mfma" "-mavx512fp16"'),
    ("TS501", "pytorch-python313-cuda13_0-sm120-avx", '"-mavx"', ""),
    ("TS502", NAME, 'export CXXFLAGS="${toString cpuFlags} ', 'export CXXFLAGS="'),
    ("TS503", NAME, "${toString cpuFlags}", "-march=native"),
    ("TS504", "pytorch-python313-cuda13_0-sm120-avx", "export USE_FBGEMM=0", ""),
    ("TS505", NAME, 'platforms = [ "x86_64-linux" ]', 'platforms = [ "aarch64-linux" ]'),
    ("TS506", NAME, VERSION, f"{VERSION}\n          export USE_CUDNN=0"),
    ("TS508", NAME, " -frecord-gcc-switches", ""),
    ("TS508", NAME, " -Xcompiler=-fmessage-length=10002", ""),
    ("TS601", NAME, 'and AVX-512 CPUs";', 'and AVX-512 CPUs, SM90";'),
    ("TS601", NAME, 'and AVX-512 CPUs";', 'and AVX2 CPUs";'),
    ("TS601", NAME, "with CUDA 13.0 for", "with CUDA 12.8 for"),
    ("TS601", NAME, 'description = "PyTorch 2.10.0', 'description = "PyTorch 2.9.1'),
    ("TS601", NAME, 'and AVX-512 CPUs";', '(L40S) and AVX-512 CPUs";'),
    ("TS908", NAME, 'owner = "pytorch";', ""),
    ("TS908", NAME, 'rev = "v${version}";', ""),
    ("TS701", VISION, 'version = "0.25.0"', 'version = "0.24.0"'),
    ("TS702", VISION, "torch = customPytorch;\n}).", "})."),
    ("TS703", VISION, "++ [ customPytorch.out ];\n\n  preConf", ";\n\n  preConf"),
    ("TS706", VISION, 'version = "0.25.0";', ""),
    ("TS803", NAME, "PYTORCH_BUILD_VERSION=${oldAttrs.version}", "PYTORCH_BUILD_VERSION=2.9.1"),
    ("TS804", NAME, 'cudaMajorMinorVersion == "13.0"', 'cudaMajorMinorVersion == "12.8"'),
    ("TS805", NAME, "gpuTargets = [ gpuArchSM ]", "gpuTargets = [ gpuArch ]"),
    ("TS807", NAME, "python3Packages.torch.override {", "python3Packages.buildPythonPackage {"),
    ("TS808", NAME, "python3Packages.torch.override", "python3Packages.numpy.override"),
    ("TS810", NAME, "passthru = oldAttrs.passthru // {", "passthru = {"),
    ("TS810", NAME, 'preConfigure = (oldAttrs.preConfigure or "")', 'preConfigure = ""'),
    ("TS901", NAME, "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=", ""),
    ("TS902", NAME, "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=", "sha256-short"),
    ("TS903", NAME, "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi", "sha256-iZLHBCneMtZKRgTEuW1K7+JpiRK"),
    ("TS904", NAME, 'hash = "sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=";', ""),
    ("TS905", NAME, 'rev = "v${version}"', 'rev = "v2.9.0"'),
    ("TS906", NAME, "fetchSubmodules = true;", ""),
]
