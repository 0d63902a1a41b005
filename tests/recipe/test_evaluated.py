"""What recipes become, asked of real Nix: true even if a grep could be fooled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.recipe.conftest import MINI, PLAN, Evaluate, Make

pytestmark = pytest.mark.needs("nix")

TORCH_SOURCE = MINI / "sources/pytorch/pytorch"

# What the tests want to know of a recipe; attributes that only some have are null elsewhere.
ASK = """
  d: {
    drv = d.drvPath;
    inherit (d) version;
    name = d.pname;
    system = d.system;
    torch = if d ? torch then d.torch.drvPath else d.drvPath;
    archs = d.TORCH_CUDA_ARCH_LIST or d.env.TORCH_CUDA_ARCH_LIST or "";
    phases = "${d.preConfigure or ""}${d.postPatch or ""}${d.preBuild or ""}";
    propagates = map (p: p.outPath) d.propagatedBuildInputs;
    torchOut = if d ? torch then d.torch.out.outPath else "";
    label = d.torchsmith;
    description = d.meta.description;
    long = d.meta.longDescription;
    platforms = d.meta.platforms;
  }
"""


def ask_repo(
    evaluate: Evaluate, root: Path, package: str, tree: str = "", function: str = ASK
) -> dict[str, Any]:
    """Every recipe of a repository through its default.nix, all in one Nix."""
    repo = root / f"build-{package}"
    answer: dict[str, Any] = evaluate(
        f"builtins.mapAttrs (name: {function}) (removeAttrs (import {repo}/default.nix"
        ' { torchsmithNixpkgs = mini; }) [ "environments" "shells" "images" "overlay" ])',
        tree,
    )
    return answer


@pytest.fixture(scope="module")
def recipes(plan: Path, evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """All 132 recipes of the default workspace."""
    found: dict[str, dict[str, Any]] = {}
    for package in ("pytorch", "torchvision", "torchaudio"):
        found |= ask_repo(evaluate, plan, package)
    assert len(found) == 132
    return found


def test_the_default_workspace_needs_44_torch_builds(recipes: dict[str, dict[str, Any]]) -> None:
    assert len({recipe["torch"] for recipe in recipes.values()}) == 44
    assert len({recipe["drv"] for recipe in recipes.values()}) == 132
    for name, recipe in recipes.items():
        own = recipes["pytorch-" + name.partition("-")[2]]
        assert recipe["torch"] == own["drv"], f"{name} compiles torch again"


@pytest.mark.parametrize(("isa", "expected"), [("avx512", ["-mno-avx512f"]), ("avx2", [])])
def test_avx2_kernels_of_an_avx512_build_are_compiled_without_avx512(
    isa: str, expected: list[str], recipes: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """The recipe's own commands change the line for AVX2 of torch's kernels, and no other."""
    shutil.copytree(TORCH_SOURCE / "cmake", tmp_path / "cmake")
    given = (tmp_path / "cmake/Codegen.cmake").read_text()
    commands = re.findall(
        r"^ *sed .* cmake/Codegen.cmake$", recipes[f"pytorch-python313-cpu-{isa}"]["phases"], re.M
    )
    for command in commands:
        subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)
    changed = (tmp_path / "cmake/Codegen.cmake").read_text()
    assert changed == given.replace("-mavx2", " ".join([*expected, "-mavx2"]))


def test_a_compile_cache_reaches_the_build_only_when_it_is_asked_for(
    make: Make, evaluate: Evaluate, recipes: dict[str, dict[str, Any]]
) -> None:
    name = "pytorch-python313-cuda13_0-sm120-avx512"
    assert "ccache" not in recipes[name]["phases"]
    cached = ask_repo(evaluate, make(f'{PLAN}ccache = "/var/cache/ccache"\n'), "pytorch")[name]
    assert 'CCACHE_DIR="/var/cache/ccache"' in cached["phases"]
    assert "CMAKE_CUDA_COMPILER_LAUNCHER=ccache" in cached["phases"]
    steps = [
        cached["phases"].index(step) for step in ("CCACHE_DISABLE=1", "--cmake-only", "unset CCACHE_DISABLE")
    ]
    assert steps == sorted(steps), "CMake asks the compiler itself what it includes"


FLAGS_UNSEEN = {
    "NIX_CFLAGS_COMPILE": f"-isystem /nix/store/{'a' * 32}-openblas-0.3.30/include -frandom-seed=abc",
    "NIX_HARDENING_ENABLE": "pic",
    "NVCC_APPEND_FLAGS": "-Xcompiler=-mavx2",
}


@pytest.mark.parametrize(
    ("variable", "value", "differs"),
    [
        ("NVCC_APPEND_FLAGS", "-Xcompiler=-mavx512f", True),
        ("NIX_CFLAGS_COMPILE", f"-isystem /nix/store/{'a' * 32}-openblas-0.3.31/include", True),
        ("NIX_HARDENING_ENABLE", "pic relro", True),
        (
            "NIX_CFLAGS_COMPILE",
            f"-isystem /nix/store/{'b' * 32}-openblas-0.3.30/include -frandom-seed=def",
            False,
        ),
    ],
)
def test_flags_that_ccache_does_not_see_are_hashed(
    variable: str, value: str, differs: bool, make: Make, evaluate: Evaluate, tmp_path: Path
) -> None:
    """Without that ccache takes an object of other flags; store hashes and seeds alone change nothing."""
    name = "pytorch-python313-cuda13_0-sm120-avx512"
    phases = ask_repo(evaluate, make(f'{PLAN}ccache = "/var/cache/ccache"\n'), "pytorch")[name]["phases"]
    assert 'export CCACHE_EXTRAFILES="$NIX_BUILD_TOP/ccache-environment"' in phases
    written = re.search(
        r'^ *echo "\$NIX_CFLAGS_COMPILE [^|]*\| sed [^>]*> ".*/ccache-environment"$', phases, re.M
    )
    assert written is not None
    hashed = []
    for place, changed in (("a", {}), ("b", {variable: value})):
        folder = tmp_path / place
        folder.mkdir()
        env = {**os.environ, **FLAGS_UNSEEN, **changed, "NIX_BUILD_TOP": str(folder)}
        subprocess.run(["bash", "-euc", written[0]], env=env, check=True)
        hashed.append((folder / "ccache-environment").read_text().split())
    assert (hashed[0] != hashed[1]) == differs


def archs(recipe: dict[str, Any]) -> str:
    """The architectures that the build is told: torch exports them in a phase, companions have a variable."""
    exported = re.search(r'export TORCH_CUDA_ARCH_LIST="([^"]*)"', recipe["phases"])
    return exported[1] if exported else recipe["archs"]


def test_kernels_are_compiled_for_the_one_sm_in_the_name(recipes: dict[str, dict[str, Any]]) -> None:
    for name, recipe in recipes.items():
        sm = next((word[2:] for word in name.split("-") if word.startswith("sm")), "")
        expected = f"{sm[:-1]}.{sm[-1]}" if sm else ""
        assert archs(recipe) == expected, name


def test_versions_are_the_official_set_and_reach_the_build(recipes: dict[str, dict[str, Any]]) -> None:
    versions = {"pytorch": "2.10.0", "torchvision": "0.25.0", "torchaudio": "2.10.0"}
    for name, recipe in recipes.items():
        package = name.partition("-")[0]
        assert recipe["version"] == versions[package]
        if package == "pytorch":
            assert "export PYTORCH_BUILD_VERSION=2.10.0" in recipe["phases"]


def test_job_limit_include_path_and_stub_stand_where_they_have_effect(
    recipes: dict[str, dict[str, Any]],
) -> None:
    phases = recipes["pytorch-python313-cuda13_0-sm90-avx2"]["phases"]
    assert "export NIX_BUILD_CORES=32" in phases
    assert 'export CMAKE_CUDA_FLAGS="-I$NIX_BUILD_TOP/cccl-compat"' in phases
    assert 'include("${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake")' in phases
    for name, recipe in recipes.items():
        assert "export NIX_BUILD_CORES=32" in recipe["phases"], name


def test_companions_propagate_the_out_of_their_torch(recipes: dict[str, dict[str, Any]]) -> None:
    companions = [recipe for name, recipe in recipes.items() if not name.startswith("pytorch")]
    assert len(companions) == 88
    for recipe in companions:
        assert recipe["torchOut"] in recipe["propagates"]


def test_recipes_name_their_own_system_and_say_what_they_are(recipes: dict[str, dict[str, Any]]) -> None:
    for name, recipe in recipes.items():
        expected = "aarch64-linux" if "arm" in name else "x86_64-linux"
        assert recipe["system"] == expected
        assert recipe["platforms"] == [expected]
        assert recipe["label"] == {"variant": name, "line": "2.10"}


def test_descriptions_are_true_for_their_cell(recipes: dict[str, dict[str, Any]]) -> None:
    titles = {"avx2": "AVX2", "avx512": "AVX-512", "avx512bf16": "AVX-512 BF16", "armv9": "ARMv9-A with SVE2"}
    for name, recipe in recipes.items():
        words = name.split("-")
        for isa, title in titles.items():
            if words[-1] == isa:
                assert f"{title} CPUs" in recipe["description"]
        if words[2] == "cpu":
            assert "without CUDA" in recipe["description"]  # what every user of a recipe reads
            assert "GPU: none" in recipe["long"]
        else:
            assert words[3].upper() in recipe["description"]
            assert "13.0" in recipe["description"]
        unusable = any(sm in words for sm in ("sm110", "sm121")) and "avx" in words[-1]
        assert ("Machines: none" in recipe["long"]) is unusable, name


def test_torchaudio_on_cuda_13_has_its_opencv_patches(plan: Path, evaluate: Evaluate) -> None:
    recipe = plan / "build-torchaudio/.flox/pkgs/torchaudio-python313-cuda13_0-sm90-avx2.nix"
    patches = evaluate(
        f"let d = import {recipe} {{ torchsmithNixpkgs = mini; }};"
        ' below = name: d: builtins.head (builtins.filter (x: (x.pname or "") == name) d.buildInputs); in'
        ' map (p: p.name) (below "opencv" (below "frei0r-plugins" (below "ffmpeg-full" d))).patches'
    )
    assert patches == ["opencv-cuda-13-device-properties.patch"]


OTHER_LINES = """
format = 1
packages = ["pytorch", "torchvision", "torchaudio"]

[[matrix]]
line = "{line}"
python = {pythons}
cuda = {cudas}
sm = ["sm90", "sm120"]
isa = ["avx2", "armv9"]
"""


@pytest.mark.parametrize(
    ("line", "pythons", "cudas", "tree", "versions"),
    [
        (
            "2.10",
            ["3.11", "3.12", "3.13"],
            ["12.6", "12.8", "12.9", "13.0", "cpu"],
            "",
            ("2.10.0", "0.25.0", "2.10.0"),
        ),
        ("2.10", ["3.13"], ["13.1"], "at-2017d6d", ("2.10.0", "0.25.0", "2.10.0")),
        ("2.9", ["3.13"], ["12.8", "13.0", "cpu"], "", ("2.9.1", "0.24.1", "2.9.1")),
        ("2.8", ["3.12"], ["12.8", "12.9", "cpu"], "at-fe5e41d", ("2.8.0", "0.23.0", "2.8.0")),
    ],
)
def test_other_lines_evaluate_with_their_own_versions(
    make: Make,
    evaluate: Evaluate,
    line: str,
    pythons: list[str],
    cudas: list[str],
    tree: str,
    versions: tuple[str, str, str],
) -> None:
    text = OTHER_LINES.format(line=line, pythons=pythons, cudas=cudas)
    if "12.6" in cudas:
        text = text.replace('"sm90", "sm120"', '"sm90"')
    root = make(text)
    for package, version in zip(("pytorch", "torchvision", "torchaudio"), versions, strict=True):
        found = ask_repo(evaluate, root, package, tree)
        assert len(found) >= 4
        for name, recipe in found.items():
            assert recipe["version"] == version, name
            assert recipe["label"]["line"] == line
            prefix = {"2.10": "pytorch210", "2.9": "pytorch29", "2.8": "pytorch28"}[line]
            assert recipe["name"].startswith(prefix if package == "pytorch" else package)


AVX = """
format = 1
include = [
  "pytorch-python313-cuda13_0-sm120-avx",
  "torchvision-python313-cuda13_0-sm120-avx",
  "pytorch-python313-cpu-avx",
]
"""


def test_avx_cells_use_no_newer_instruction_outside_dispatch(make: Make, evaluate: Evaluate) -> None:
    root = make(AVX)
    for name, recipe in ask_repo(evaluate, root, "pytorch").items():
        for switch in ("USE_FBGEMM", "USE_MKLDNN", "USE_MKLDNN_CBLAS", "USE_NNPACK"):
            assert f"export {switch}=0\n" in recipe["phases"], (name, switch)
        assert "-mno-fma" in recipe["phases"]
        assert "-mfma" not in recipe["phases"]
        assert "-mf16c" not in recipe["phases"]
    vision = ask_repo(evaluate, root, "torchvision")
    torch = ask_repo(evaluate, root, "pytorch")["pytorch-python313-cuda13_0-sm120-avx"]
    assert vision["torchvision-python313-cuda13_0-sm120-avx"]["torch"] == torch["drv"]


def test_the_cuda_packages_are_really_the_release_in_their_name(plan: Path, evaluate: Evaluate) -> None:
    for system in ("x86_64-linux", "aarch64-linux"):
        found = evaluate(
            f"builtins.mapAttrs (n: d: d.name) (builtins.listToAttrs (map (n: {{ name = n; value ="
            f' import ({plan}/build-cudatoolkit/.flox/pkgs + "/${{n}}.nix")'
            f' {{ torchsmithNixpkgs = mini; torchsmithSystem = "{system}"; }}; }})'
            ' [ "cudatoolkit-13_0" "cudnn-13_0" "nccl-13_0" "libcusparse_lt-13_0" ]))'
        )
        assert len(found) == 4
        assert all("13.0" in name for name in found.values()), found


FLOX = """
format = 1
packages = ["pytorch"]
[[matrix]]
line = "flox"
python = ["3.13"]
cuda = ["12.8"]
sm = ["sm120"]
isa = ["avx512"]
[[matrix]]
line = "flox"
python = ["3.12"]
cuda = ["12.8"]
sm = ["sm86"]
isa = ["avx2"]
[[matrix]]
line = "flox"
python = ["3.11"]
cuda = ["cpu"]
isa = ["avx2"]
"""


def test_the_flox_line_gives_the_three_worked_examples(make: Make, evaluate: Evaluate) -> None:
    found = ask_repo(evaluate, make(FLOX), "pytorch")
    assert {name: archs(recipe) for name, recipe in found.items()} == {
        "pytorch-python313-cuda12_8-sm120-avx512": "12.0",
        "pytorch-python312-cuda12_8-sm86-avx2": "8.6",
        "pytorch-python311-cpu-avx2": "",
    }
    for name, recipe in found.items():
        assert recipe["name"] == name


NIGHTLY = """
format = 1
cudatoolkit = ["13.0"]
include = [
  "pytorch-python313-cuda13_0-sm121-armv9-nightly",
  "pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper",
  "torchvision-python313-cuda13_0-sm121-armv9-nightly",
]
[nightly]
self_contained = {self_contained}
[nightly.pytorch]
rev = "0123456789abcdef0123456789abcdef01234567"
version = "2.11.0.dev20260201"
[nightly.torchvision]
rev = "89abcdef0123456789abcdef0123456789abcdef"
version = "0.26.0.dev20260201"
"""
PUBLISHED = """
[nightly.cudatoolkit]
owner = "someone"
rev = "fedcba9876543210fedcba9876543210fedcba98"
"""


def test_the_nightly_its_companion_and_its_wrapper_share_one_torch(make: Make, evaluate: Evaluate) -> None:
    root = make(NIGHTLY.format(self_contained="true"))
    torch = ask_repo(evaluate, root, "pytorch", function="d: d.drvPath")
    name = "pytorch-python313-cuda13_0-sm121-armv9-nightly"
    vision = ask_repo(
        evaluate,
        root,
        "torchvision",
        function="d: [ d.torch.drvPath d.torch.cudaCapabilities d.preConfigure ]",
    )
    *shared, configure = vision["torchvision-python313-cuda13_0-sm121-armv9-nightly"]
    assert shared == [torch[name], ["12.1"]]
    assert "-Xcompiler=-march=armv9-a+sve+sve2" in configure, "nvcc's host compiler gets the flags, too"
    assert (root / "build-pytorch/.flox/pkgs/cudnn-13_0.nix").exists()
    text = (root / f"build-pytorch/.flox/pkgs/{name}.nix").read_text()
    assert "Patching CMake files to add SM121 support" in text
    assert "✓ SM121 support added to $file" in text
    assert "cuda-13.0-clockrate-fix.patch" in text
    assert "--stability=unstable" in text
    wrapper = (root / f"build-pytorch/.flox/pkgs/{name}-wrapper.nix").read_text()
    assert "fetchTarball" not in wrapper


def test_a_published_toolkit_is_fetched_by_revision_unless_the_environment_names_one(make: Make) -> None:
    root = make(NIGHTLY.format(self_contained="false") + PUBLISHED)
    wrapper = (
        root / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper.nix"
    ).read_text()
    assert 'getEnv "CUDA_TOOLKIT_REPO"' in wrapper
    assert 'toolkitRev = "fedcba9876543210fedcba9876543210fedcba98"' in wrapper
    assert not (root / "build-pytorch/.flox/pkgs/cudnn-13_0.nix").exists()


def test_an_environment_holds_every_package_of_its_cell_and_one_torch(plan: Path, evaluate: Evaluate) -> None:
    cell = "python313-cuda13_0-sm120-avx512"
    ask = f"""
      let
        of = name: import ({plan} + "/${{name}}/default.nix") {{ torchsmithNixpkgs = mini; }};
        environment = (of "build-torchaudio").environments."{cell}";
        torch = (of "build-pytorch")."pytorch-{cell}";
      in {{
        modules = map (one: one.drvPath) environment.modules;
        wanted = map (one: one.drvPath) [
          (of "build-torchaudio")."torchaudio-{cell}" torch (of "build-torchvision")."torchvision-{cell}"
        ];
        cells = builtins.length (builtins.attrNames (of "build-torchaudio").environments);
        overlay = ((of "build-pytorch").overlay {{ }} {{ }})."pytorch-{cell}".drvPath == torch.drvPath;
      }}
    """
    answer = evaluate(ask, "")
    assert answer["modules"] == answer["wanted"]
    assert answer["cells"] == 44
    assert answer["overlay"]
