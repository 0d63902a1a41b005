"""Derivations read the same whichever Nix printed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.nix.conftest import MINI, Write, torch_recipe
from torchsmith.core.problem import Exit, Problem
from torchsmith.nix.derivation import Derivation, Output, name_of, read_derivations, show_derivations
from torchsmith.nix.evaluate import EvaluationOptions, evaluate
from torchsmith.nix.tool import Nix

DRV = "/nix/store/00000000000000000000000000000000-source-1.drv"
DEP = "/nix/store/11111111111111111111111111111111-dep-2.drv"
SRC = "/nix/store/22222222222222222222222222222222-builder.sh"
OUT = "/nix/store/33333333333333333333333333333333-source-1"
DIGEST = "44a8992c70429de32d64a4604c4b96d4aefe2698beb71d7504c5ee4b58c2d714"
COMMON: dict[str, Any] = {
    "args": ["-e", SRC],
    "builder": "/bin/sh",
    "env": {"name": "source-1", "pname": "source", "out": OUT},
    "system": "x86_64-linux",
}


def base(path: str) -> str:
    return path.rpartition("/")[2]


def version_1() -> dict[str, Any]:
    """As Nix 2.8 prints it."""
    outputs = {"out": {"path": OUT, "hashAlgo": "r:sha256", "hash": DIGEST}}
    return {DRV: COMMON | {"outputs": outputs, "inputDrvs": {DEP: ["dev", "out"]}, "inputSrcs": [SRC]}}


def version_2() -> dict[str, Any]:
    """As Nix 2.26 prints it."""
    outputs = {"out": {"path": OUT, "hashAlgo": "sha256", "method": "nar", "hash": DIGEST}}
    inputs = {DEP: {"dynamicOutputs": {}, "outputs": ["dev", "out"]}}
    return {DRV: COMMON | {"name": "source-1", "outputs": outputs, "inputDrvs": inputs, "inputSrcs": [SRC]}}


def version_3() -> dict[str, Any]:
    """By the documentation of Nix 2.32, not printed by one: paths without their folder."""
    outputs = {"out": {"path": base(OUT), "hashAlgo": "sha256", "method": "nar", "hash": DIGEST}}
    inputs = {base(DEP): {"dynamicOutputs": {}, "outputs": ["dev", "out"]}}
    more = {
        "name": "source-1",
        "version": 3,
        "outputs": outputs,
        "inputDrvs": inputs,
        "inputSrcs": [base(SRC)],
    }
    return {base(DRV): COMMON | more}


def version_4() -> dict[str, Any]:
    """By the documentation of newer ones, not printed by one: the hash as an object, inputs together."""
    digest = {"algorithm": "sha256", "format": "base16", "hash": DIGEST}
    outputs = {"out": {"path": base(OUT), "method": "nar", "hash": digest}}
    inputs = {"drvs": {base(DEP): {"dynamicOutputs": {}, "outputs": ["dev", "out"]}}, "srcs": [base(SRC)]}
    more = {"name": "source-1", "version": 4, "outputs": outputs, "inputs": inputs}
    return {"version": 4, "derivations": {base(DRV): COMMON | more}}


@pytest.mark.parametrize("shape", [version_1, version_2, version_3, version_4])
def test_every_shape_reads_the_same(shape: Any) -> None:
    assert read_derivations(json.dumps(shape())) == {
        DRV: Derivation(
            path=DRV,
            name="source-1",
            system="x86_64-linux",
            builder="/bin/sh",
            args=("-e", SRC),
            env=COMMON["env"],
            inputs={DEP: ("dev", "out")},
            sources=(SRC,),
            outputs={"out": Output(OUT, DIGEST)},
        )
    }


def test_names_leave_the_store_and_its_hash_out() -> None:
    assert name_of(DRV) == "source-1"


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(Problem) as caught:
        read_derivations("error: nothing")
    assert caught.value.exit is Exit.ENVIRONMENT


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
def test_a_download_is_known_by_its_hash(nix: Nix, write: Write, tmp_path: Path) -> None:
    body = 'pkgs.fetchFromGitHub { owner = "a"; repo = "b"; rev = "c"; hash = pkgs.lib.fakeHash; }'
    [result] = evaluate(
        write(one=torch_recipe(body)), nix, EvaluationOptions(trees={"default": MINI}, instantiate=True)
    )
    assert result.evaluated is not None
    [shown] = show_derivations(nix, [result.evaluated.drv_path]).values()
    assert shown.fixed
