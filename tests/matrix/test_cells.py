"""Every cell of the full product is decided, with the reason in words."""

from __future__ import annotations

import itertools

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Accepted, CpuOnly, Cuda, Decision, Rejected, Target, Variant, assess
from torchsmith.matrix.cells import nearest_allowed
from torchsmith.matrix.describe import describe, explain

CATALOG = builtin_catalog()


def decide(cell: str, line: str | None = None) -> Decision:
    return assess(Variant.parse(f"pytorch-{cell}", CATALOG), CATALOG, line)


@pytest.mark.parametrize(
    ("cell", "line", "reason"),
    [
        ("python313-cuda12_8-sm103-avx2", None, "sm103 needs CUDA 12.9, asked for 12.8"),
        ("python313-cuda13_0-sm70-avx2", None, "sm70 ends with CUDA 12.9, asked for 13.0"),
        ("python313-cuda12_9-sm110-armv9", None, "sm110 needs CUDA 13.0, asked for 12.9 (called sm101"),
        ("python313-cuda12_8-sm61-avx2", None, "the cuDNN of nixpkgs 6a030d5 needs sm75"),
        ("python313-cuda13_0-sm90-avx2", "2.8", "torch 2.8.0 is not built for CUDA 13.0 here (it has 12.6"),
        ("python313-cuda13_0-sm87-armv8_2", None, "nixpkgs 6a030d5: Jetson Orin is not in its CUDA 13.0"),
        ("python312-cuda13_0-sm87-armv8_2", "2.9", "nixpkgs 6a030d5: Jetson Orin is not in its CUDA 13.0"),
        ("python310-cuda13_0-sm90-avx2", None, "Python 3.10 is not in the catalog"),
        ("python313-cuda11_8-sm90-avx2", None, "CUDA 11.8 is not in the catalog"),
        ("python313-cuda13_0-sm91-avx2", None, "unknown GPU architecture sm91 (did you mean"),
        ("python313-cpu-avx3", None, "unknown instruction set avx3 (did you mean avx"),
        ("python311-cuda13_1-sm90-avx2", None, "nixpkgs 2017d6d has no Python 3.11"),
        ("python313-cuda12_5-sm90-avx2", None, "no torch release here is built for CUDA 12.5"),
    ],
)
def test_a_rejected_cell_says_why(cell: str, line: str | None, reason: str) -> None:
    decision = decide(cell, line)
    assert isinstance(decision, Rejected)
    assert any(str(why).startswith(reason) for why in decision.reasons), decision.reasons


@pytest.mark.parametrize(
    ("cell", "warning"),
    [
        (
            "python313-cuda13_0-sm121-avx2",
            "sm121 (GB10, DGX Spark) exists only on aarch64: no machine can use",
        ),
        (
            "python313-cuda12_9-sm87-armv9",
            "sm87 comes only with Cortex-A78AE (Jetson Orin), which cannot run",
        ),
        ("python313-cuda12_4-sm90-avx2", "CUDA 12.4 was removed from both evaluated nixpkgs"),
        ("python313-cuda13_1-sm90-avx2", "never evaluated at its own pin"),
    ],
)
def test_a_doubtful_cell_is_accepted_with_its_doubt(cell: str, warning: str) -> None:
    decision = decide(cell)
    assert isinstance(decision, Accepted)
    assert [str(one) for one in decision.warnings if str(one).startswith(warning)]


def test_the_newest_line_that_has_the_cuda_builds_a_cell() -> None:
    decision = decide("python313-cuda12_8-sm90-avx2")
    assert isinstance(decision, Accepted)
    assert decision.line.name == "2.10"


def test_every_cell_of_the_full_product_is_decided_and_described() -> None:
    targets: list[Target] = [
        CpuOnly(),
        *(Cuda(c, s) for c, s in itertools.product(CATALOG.cuda, CATALOG.gpus)),
    ]
    product = itertools.product(CATALOG.pythons, targets, CATALOG.isas)
    accepted = rejected = 0
    for python, target, isa in product:
        variant = Variant(CATALOG.torch, python, target, isa)
        decision = assess(variant, CATALOG)
        if isinstance(decision, Rejected):
            rejected += 1
            assert decision.reasons
            assert all(reason.text for reason in decision.reasons)
        else:
            accepted += 1
            assert describe(variant, CATALOG).name == variant.name
    assert accepted > 500
    assert rejected > 500


def test_the_nearest_cells_differ_in_one_axis_and_can_be_used() -> None:
    asked = Variant.parse("pytorch-python313-cuda12_8-sm103-avx2", CATALOG)
    near = nearest_allowed(asked, CATALOG)
    assert near[0].name == "pytorch-python313-cuda12_9-sm103-avx2"
    for variant in near:
        decision = assess(variant, CATALOG)
        assert isinstance(decision, Accepted)
        assert decision.usable


def test_the_nearest_cells_that_were_proved_come_first() -> None:
    near = nearest_allowed(Variant.parse("pytorch-python313-cuda13_0-sm87-armv8_2", CATALOG), CATALOG)
    assert near[0].name == "pytorch-python313-cuda12_9-sm87-armv8_2"
    proved = [
        bool(decision.warnings) for one in near if isinstance(decision := assess(one, CATALOG), Accepted)
    ]
    assert proved == sorted(proved)


def test_an_explanation_names_the_old_spelling() -> None:
    answer = explain("pytorch210-python313-cuda13_0-sm110-armv8.2-magma", CATALOG)
    assert answer.verdict == "accepted"
    assert len(answer.old_spelling) == 2


def test_what_nobody_proved_is_said() -> None:
    unproved = describe(Variant.parse("pytorch-python313-cuda13_1-sm90-avx2", CATALOG), CATALOG).unproved
    assert any("never evaluated here" in text for text in unproved)


def test_a_cell_that_cannot_be_built_cannot_be_described() -> None:
    with pytest.raises(Problem, match=r"sm103 needs CUDA 12\.9"):
        describe(Variant.parse("pytorch-python313-cuda12_8-sm103-avx2", CATALOG), CATALOG)
