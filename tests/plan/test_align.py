"""The alignment table of several repositories, and creating what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from torchsmith.audit.finding import Severity
from torchsmith.audit.run import Request, audit
from torchsmith.edge.problem import Problem
from torchsmith.edge.process import run
from torchsmith.plan.align import align, make_missing, write_missing
from torchsmith.workspace.run import Request as GenerateRequest
from torchsmith.workspace.run import generate

PROGRAM = str(Path(sys.executable).with_name("torchsmith"))
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm90", "sm120"]
isa = ["avx2"]
"""


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """Three repositories without a workspace; torchvision lacks one cell, torch another."""
    (tmp_path / "torchsmith.toml").write_text(TOML)
    generate(GenerateRequest(workspace=tmp_path, git=False))
    (tmp_path / "torchsmith.toml").unlink()
    (tmp_path / "build-torchvision/.flox/pkgs/torchvision-python313-cuda13_0-sm90-avx2.nix").unlink()
    (tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix").unlink()
    return tmp_path


def test_what_is_missing_is_marked_on_its_side(apart: Path) -> None:
    found = align((apart,))
    assert found.whole == 1
    assert [(column.package.name, cell) for column, cell in found.missing] == [
        ("pytorch", "python313-cpu-avx2"),
        ("torchvision", "python313-cuda13_0-sm90-avx2"),
    ]


def test_what_is_missing_can_be_created_and_is_right(apart: Path) -> None:
    written = write_missing(make_missing(align((apart,))))
    assert len(written) == 2
    assert align((apart,)).missing == []
    report = audit(Request(tuple(written), jobs=1))
    assert report.of(Severity.ERROR, Severity.WARNING) == []
    assert 'version = "0.25.0"' in next(path for path in written if "vision" in path.name).read_text()


def test_one_repository_cannot_be_aligned(apart: Path) -> None:
    with pytest.raises(Problem, match="two repositories"):
        align((apart / "build-pytorch",))


def test_the_verb_says_it_and_creates_it(apart: Path) -> None:
    shown = run([PROGRAM, "align", "build-pytorch", "build-torchvision"], cwd=apart)
    assert shown.code == 1
    assert "missing in build-torchvision" in shown.stdout
    assert json.loads(run([PROGRAM, "align", apart, "--json"]).stdout)["missing"] == 2
    assert run([PROGRAM, "align", apart, "--create"]).ok
    assert run([PROGRAM, "align", apart]).ok
