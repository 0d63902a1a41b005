"""What a nixpkgs tree has is asked of Nix: the miniature tells what it was made to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from torchsmith.api.writing import GenerateRequest, generate
from torchsmith.catalog import builtin_catalog
from torchsmith.edit.line import NewLine, propose_line
from torchsmith.edit.pin import Move, propose
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import Nix

pytestmark = pytest.mark.needs("nix")
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90"]
isa = ["avx2"]
"""
REV = "00000000000000000000000000000000000000aa"


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            MINI,
            {"torch": "2.9.1", "torchvision": "0.24.0", "torch_shape": "attributes", "default_cuda": "12.8"},
        ),
        (MINI / "at-2026-11", {"torch": "2.14.1", "torchaudio": "2.11.0", "torch_shape": "structured"}),
        (MINI / "at-fe5e41d", {"torch": "2.8.0", "cudas": ["12.6", "12.8", "12.9"], "aliases": ["pytorch"]}),
    ],
)
def test_a_tree_tells_its_releases_cudas_pythons_and_shape(
    tree: Path, expected: dict[str, object], nix: Nix
) -> None:
    facts = probe(nix, tree, builtin_catalog())
    assert expected.items() <= facts.items()
    assert facts["pythons"] == ["3.11", "3.12", "3.13"]
    assert facts["default_python"] == "3.13"
    assert {"cudaSupport", "MPISupport"} <= set(facts["torch_switches"])
    assert nix.version_text in facts["source"]


def test_a_line_moves_to_what_a_tree_has_and_needs_no_fix_of_its_own_release(
    tmp_path: Path, nix: Nix
) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    generate(GenerateRequest(workspace=tmp_path))
    facts = probe(nix, MINI / "at-2026-11", builtin_catalog())
    moved = propose(tmp_path, Move("2.10", REV, probed=facts)).after.catalog
    build = moved.lines["2.10"].cuda["13.0"]
    assert moved.pins[build.pin].torch_shape == "structured"
    assert "torch-source" in build.fixes
    native = propose(tmp_path, Move("2.10", REV, probed=facts | {"torch": "2.10.0"})).after.catalog
    assert native.lines["2.10"].cuda["13.0"].fixes == ("cuda-package-set",)


def test_a_line_is_added_from_what_a_tree_has(tmp_path: Path, nix: Nix) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    facts = probe(nix, MINI / "at-2026-11", builtin_catalog())
    pairs = {name: facts[name] for name in ("torchvision", "torchaudio")}
    new = NewLine("2.14", "2.10", "2.14.1", REV, versions=pairs, probed=facts)
    line = propose_line(tmp_path, new).after.catalog.lines["2.14"]
    assert (line.torch, line.versions["torchaudio"]) == ("2.14.1", "2.11.0")
    assert line.cuda["13.0"].fixes == ("cuda-package-set",)
    assert line.cpu is not None
    assert line.cpu.fixes == ()
