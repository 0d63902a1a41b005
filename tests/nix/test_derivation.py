"""Derivations are read from their files in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nix.conftest import MINI, Write, torch_recipe
from torchsmith.core.problem import Exit, Problem
from torchsmith.nix.derivation import name_of, show_derivations
from torchsmith.nix.evaluate import EvaluationOptions, evaluate
from torchsmith.nix.store import deriver
from torchsmith.nix.tool import Nix

DRV = "/nix/store/00000000000000000000000000000000-source-1.drv"


def test_names_leave_the_store_and_its_hash_out() -> None:
    assert name_of(DRV) == "source-1"


@pytest.mark.needs("nix")
def test_the_installed_nix_is_understood(nix: Nix, write: Write) -> None:
    [result] = evaluate(
        write(one=torch_recipe()), nix, EvaluationOptions(trees={"default": MINI}, instantiate=True)
    )
    assert result.evaluated is not None
    shown = show_derivations(nix, [result.evaluated.drv_path], recursive=True)
    torch = shown[result.evaluated.drv_path]
    assert torch.pname == "torch"
    assert torch.env["PYTORCH_BUILD_VERSION"] == "2.9.1"
    assert {name: output.path for name, output in torch.outputs.items()} == dict(result.evaluated.outputs)
    assert "blas-3" in {name_of(path) for path in torch.inputs}
    assert all(path in shown for path in torch.inputs)


@pytest.mark.needs("nix")
def test_a_derivation_that_is_not_in_the_store_is_named(nix: Nix) -> None:
    with pytest.raises(Problem) as caught:
        show_derivations(nix, [DRV])
    assert caught.value.exit is Exit.ENVIRONMENT


@pytest.mark.needs("nix")
def test_a_path_that_nothing_was_built_to_has_no_derivation(nix: Nix, tmp_path: Path) -> None:
    (file := tmp_path / "source").write_text("text")
    added = nix.ask(nix.command("nix-store", "--add", str(file)), "cannot add").stdout.strip()
    assert (deriver(nix, added), deriver(nix, DRV)) == ("", "")


@pytest.mark.needs("nix")
def test_a_download_is_known_by_its_hash(nix: Nix, write: Write, tmp_path: Path) -> None:
    body = 'pkgs.fetchFromGitHub { owner = "a"; repo = "b"; rev = "c"; hash = pkgs.lib.fakeHash; }'
    [result] = evaluate(
        write(one=torch_recipe(body)), nix, EvaluationOptions(trees={"default": MINI}, instantiate=True)
    )
    assert result.evaluated is not None
    [shown] = show_derivations(nix, [result.evaluated.drv_path]).values()
    assert shown.fixed
