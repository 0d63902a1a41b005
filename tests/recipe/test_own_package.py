"""What a workspace's own packages.toml says of a package stands in its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.recipe.read import Recipe, read_recipe
from torchsmith.verbs.apply import ApplyRequest, apply

CELL = "python313-cuda13_0-sm90-avx2"
HASH = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
TOML = """\
format = 1
[[matrix]]
line = "2.10"
packages = ["pytorch", "torchmix"]
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90"]
isa = ["avx2"]
"""
PACKAGE = f"""\
[torchmix]
title = "TorchMix"
attr = "torchmix"
needs = ["pytorch"]
source = "a test"
upstream = {{ owner = "example", repo = "mix", tag = "release-{{version}}", submodules = true }}
versions = {{ "2.10" = "0.4.2" }}
hashes = {{ "2.10" = "{HASH}" }}
gpu_list = GPU
"""


def written(folder: Path, gpu_list: str) -> Recipe:
    (folder / "catalog").mkdir(parents=True)
    (folder / "catalog/packages.toml").write_text(PACKAGE.replace("GPU", gpu_list))
    (folder / "torchsmith.toml").write_text(TOML)
    assert not apply(ApplyRequest(workspace=folder)).skipped
    return read_recipe(folder / f"build-torchmix/.flox/pkgs/torchmix-{CELL}.nix")


@pytest.mark.parametrize(
    ("gpu_list", "lines"),
    [
        ('{ by = "cmake", name = "MIX_ARCHS", form = "90" }', ['"-DMIX_ARCHS=${gpuNumber}"']),
        ('{ by = "cmake", name = "MIX_ARCHS", form = "90-real" }', ['"-DMIX_ARCHS=${gpuNumber}-real"']),
        ('{ by = "argument", name = "gpuTargets" }', ['gpuTargets = [ "${gpuArchSM}" ];']),
        ('{ by = "variable", name = "MIX_LIST" }', ['export MIX_LIST="${gpuArchSM}"']),
        (
            '[{ by = "argument", name = "archs", form = "90" }, { by = "cmake", name = "MIX" }]',
            ['archs = [ "${gpuNumber}" ];', '"-DMIX=${gpuArchSM}"'],
        ),
    ],
)
def test_a_package_is_told_its_gpu_in_its_own_way(gpu_list: str, lines: list[str], tmp_path: Path) -> None:
    said = {line.strip() for line in written(tmp_path, gpu_list).text.splitlines()}
    assert set(lines) <= said


def test_release_and_source_are_those_of_the_entry(tmp_path: Path) -> None:
    recipe = written(tmp_path, '{ by = "argument", name = "gpuTargets" }')
    (source,) = [one for one in recipe.sources if "torchmix" in one.owner]
    fields = {name: said.value for name, said in source.fields.items()}
    assert fields == {
        "owner": "example",
        "repo": "mix",
        "rev": "release-0.4.2",
        "hash": HASH,
        "fetchSubmodules": True,
    }
    assert '"0.4.2"' in recipe.text
