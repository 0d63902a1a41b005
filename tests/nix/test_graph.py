"""What recipes share and what differs between two of them, told from their derivations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nix.conftest import MINI
from tests.recipe.conftest import Make, make  # noqa: F401
from torchsmith.nix.derivation import Derivation, Output, show_derivations
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.graph import Graph, kind_of
from torchsmith.nix.tool import Nix
from torchsmith.workspace.checkout import recipes_in

CELLS = """
format = 1
[[matrix]]
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm120"]
isa = ["avx2", "avx512"]
"""


def drv(
    name: str, *inputs: Derivation, pname: str = "", digest: str = "", system: str = "x", **env: str
) -> Derivation:
    path = f"/nix/store/{abs(hash((name, inputs and inputs[0].path, tuple(env.items())))):032d}-{name}.drv"[
        :200
    ]
    return Derivation(
        path=path,
        name=name,
        system=system,
        builder="/bin/sh",
        args=(),
        env={"pname": pname or name, **env},
        inputs={one.path: ("out",) for one in inputs},
        sources=(),
        outputs={"out": Output(None, digest or None)},
    )


def by_path(*derivations: Derivation) -> dict[str, Derivation]:
    return {one.path: one for one in derivations}


def test_a_long_build_below_two_recipes_is_shared() -> None:
    magma = drv("magma-2.9.0", pname="magma")
    torch = drv("torch-2.10.0", magma, pname="torch")
    vision, audio = drv("vision", torch), drv("audio", torch)
    graph = Graph(by_path(magma, torch, vision, audio), {"v": vision.path, "a": audio.path, "t": torch.path})
    assert [(one.kind, one.users, one.shared) for one in graph.heavy] == [
        ("torch", ("v", "a", "t"), True),
        ("magma", ("v", "a", "t"), True),
    ]
    assert graph.below["v"] == {vision.path, torch.path, magma.path}


@pytest.mark.parametrize(
    ("pname", "kind"),
    [
        ("pytorch210-python313-cuda13_0-sm120-avx512", "torch"),
        ("magma", "magma"),
        ("cuda13.0-nccl", "nccl"),
        ("triton-llvm", "triton"),
        ("opencv", "opencv"),
        ("torchvision", None),
        ("numpy", None),
    ],
)
def test_long_builds_are_known_by_their_names(pname: str, kind: str | None) -> None:
    assert kind_of(drv(f"{pname}-1", pname=pname)) == kind


def test_a_download_is_never_a_long_build() -> None:
    assert kind_of(drv("torch-2.10.0", pname="torch", digest="44")) is None


@pytest.mark.needs("nix")
def test_companions_share_their_torch_and_isas_share_magma(make: Make, nix: Nix) -> None:  # noqa: F811
    folder: Path = make(CELLS)
    requests = [EvaluationRequest(one.name, one.path) for one in recipes_in(folder)]
    results = evaluate(requests, nix, EvaluationOptions(trees={"default": MINI}, instantiate=True))
    drvs = {one.name: one.evaluated.drv_path for one in results if one.evaluated}
    graph = Graph(show_derivations(nix, list(drvs.values()), recursive=True), drvs)
    users = [(one.kind, len(one.users)) for one in graph.heavy]
    assert users == [("torch", 3), ("torch", 3), ("magma", 6), ("triton", 6), ("nccl", 6), ("opencv", 2)]


def test_a_source_that_a_command_puts_together_is_no_long_build() -> None:
    assert kind_of(drv("pytorch", pname="pytorch")) == "torch"
    assert kind_of(drv("pytorch", pname="pytorch", buildCommand="cp -r ...")) is None
