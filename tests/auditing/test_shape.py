"""Recipes that hold on the old shape of nixpkgs' torch and stop on the present one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog
from torchsmith.nix.errors import shorten
from torchsmith.repair.diagnose import diagnose_log
from torchsmith.verbs.apply import ApplyRequest, apply

REV = "00000000000000000000000000000000000000aa"
CELL = "pytorch-python313-cuda13_0-sm90-avx2"
TOML = """\
format = 1
packages = ["pytorch"]
[[matrix]]
line = "2.14"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90"]
isa = ["avx2"]
"""
PIN = f"""\
[today]
rev = "{REV}"
torch = "2.14.1"
cudas = ["13.0"]
pythons = ["3.13"]
default_python = "3.13"
torch_shape = "{{shape}}"
source = "a test"
"""
LINE = '["2.14".cuda."13.0"]\npin = "today"\nfixes = ["cuda-package-set"]\nunproved = ""\n'
OLD = '    pname = "pytorch214'


def workspace(root: Path, shape: str = "structured") -> Path:
    (root / "torchsmith.toml").write_text(TOML)
    (root / "catalog").mkdir()
    (root / "catalog/pins.toml").write_text(PIN.format(shape=shape))
    (root / "catalog/lines.toml").write_text(LINE)
    assert not apply(ApplyRequest(workspace=root)).skipped
    return root / f"build-pytorch/.flox/pkgs/{CELL}.nix"


def rules(file: Path) -> set[str]:
    found = audit((file,)).findings
    return {one.rule for one in found if one.rule == "TS810" and one.message.startswith("patches ")}


@pytest.mark.parametrize(
    ("shape", "added", "expected"),
    [
        ("structured", "patches = [ ];", {"TS810"}),
        ("structured", "", set()),
        ("attributes", "USE_NNPACK = 0;", set()),
    ],
)
def test_what_the_pins_torch_refuses_is_found_where_its_shape_is_known(
    shape: str, added: str, expected: set[str], tmp_path: Path
) -> None:
    file = workspace(tmp_path, shape)
    text = file.read_text()
    assert OLD in text
    file.write_text(text.replace(OLD, f"    {added}\n{OLD}"))
    assert rules(file) == expected


def test_our_own_recipes_of_a_pins_own_release_are_right(tmp_path: Path) -> None:
    assert rules(workspace(tmp_path)) == set()


OVERLAP = """error: The `env` attribute set cannot contain any attributes passed to derivation. The following attributes are overlapping:
         - USE_NNPACK: in `env`: 1; in derivation arguments: 0
"""  # noqa: E501


def test_nixs_own_error_is_explained() -> None:
    said = shorten(OVERLAP).message
    assert said.startswith("USE_NNPACK is an attribute")
    assert "preConfigure" in said
    assert "cccl" in shorten("error: attribute 'cuda_cccl' missing").message
    assert diagnose_log(OVERLAP, builtin_catalog()).entry == "env-overlap"


@pytest.mark.needs("nix")
def test_audit_with_nix_says_why_a_recipe_stops_on_a_pin_that_nobody_asked(tmp_path: Path) -> None:
    file = workspace(tmp_path, "")
    file.write_text(file.read_text().replace(OLD, f"    USE_NNPACK = 0;\n{OLD}"))
    assert rules(file) == set()
    tree = tmp_path / "nixpkgs"
    shutil.copytree(MINI, tree)
    chosen = (tree / "default.nix").read_text().replace('release ? "6a030d5"', 'release ? "2026-11"')
    (tree / "default.nix").write_text(chosen)
    found = audit((file,), evaluate=True, trees={"default": tree}).findings
    [stopped] = [one for one in found if one.rule == "TS003"]
    assert "USE_NNPACK" in stopped.message
    assert "export" in stopped.message
