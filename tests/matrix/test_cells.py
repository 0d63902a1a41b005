"""Every cell of the full product is decided, with the reason in words."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from torchsmith.catalog import PythonVersion, builtin_catalog, load_catalog
from torchsmith.core.problem import CannotBuild, NotKnown
from torchsmith.matrix import Accepted, CpuOnly, Cuda, Decision, Flavor, Rejected, Target, Variant, assess
from torchsmith.matrix.cells import _decisions, nearest_allowed, why_not_generated
from torchsmith.matrix.describe import describe, explain

CATALOG = builtin_catalog()


def decide(cell: str, line: str | None = None) -> Decision:
    return assess(Variant.parse(f"pytorch-{cell}", CATALOG), CATALOG, line)


OWN = {
    "packages": """
        [mix]
        title = "Mix"
        attr = "mix"
        needs = ["pytorch"]
        cuda = ">=13"
        min_sm = "sm80"
        source = "a test"
    """,
    "gpus": """
        [sm130]
        generation = "Rubin"
        title = "R100"
        parts = ["R100"]
        platforms = ["x86_64-linux"]
        min_driver = "600"
        source = "a rumour"
    """,
    "lines": """
        ["2.9-ours"]
        prefix = "pytorch29"
        torch = "2.9.1"
        packages = ["pytorch"]
        pythons = ["3.12"]
        source = "a test"
        ["2.9-ours".cuda."13.0"]
        pin = "6a030d5"
    """,
}


@pytest.mark.parametrize(
    ("name", "line", "codes"),
    [
        ("mix-python313-cuda12_8-sm90-avx2", None, {"package-no-cuda"}),
        ("mix-python313-cuda13_0-sm75-avx2", None, {"package-no-sm"}),
        ("flash-attn-python313-cuda12_8-sm75-avx2", None, {"package-no-sm"}),
        ("flash-attn-python313-cpu-avx2", None, {"package-needs-cuda"}),
        ("mix-python312-cuda13_0-sm90-avx2", "2.9-ours", {"line-no-package"}),
        ("pytorch-python313-cuda13_0-sm90-avx2", "2.9-ours", {"line-no-python"}),
        ("pytorch-python312-cpu-avx2", "2.9-ours", {"line-no-cpu"}),
        ("pytorch-python313-cuda13_0-sm130-avx2", None, {"sm-no-cuda"}),
    ],
)
def test_what_a_package_line_or_gpu_lacks_is_a_code_of_its_own(
    name: str, line: str | None, codes: set[str], tmp_path: Path
) -> None:
    for file, text in OWN.items():
        (tmp_path / f"{file}.toml").write_text(text)
    catalog = load_catalog(tmp_path)
    decision = assess(Variant.parse(name, catalog), catalog, line)
    assert isinstance(decision, Rejected)
    assert {why.code for why in decision.reasons} == codes
    assert set(explain(name, catalog, line).codes) == codes


@pytest.mark.parametrize(
    ("cell", "line", "code"),
    [
        ("python313-cuda12_8-sm103-avx2", None, "sm-needs-newer-cuda"),
        ("python313-cuda13_0-sm70-avx2", None, "sm-ended"),
        ("python313-cuda12_9-sm110-armv9", None, "sm-needs-newer-cuda"),
        ("python313-cuda12_8-sm61-avx2", None, "cudnn-too-new"),
        ("python313-cuda13_0-sm90-avx2", "2.8", "line-no-cuda"),
        ("python313-cuda13_0-sm87-armv8_2", None, "pin-limit"),
        ("python312-cuda13_0-sm87-armv8_2", "2.9", "pin-limit"),
        ("python310-cuda13_0-sm90-avx2", None, "unknown-python"),
        ("python313-cuda11_8-sm90-avx2", None, "unknown-cuda"),
        ("python313-cuda13_0-sm91-avx2", None, "unknown-sm"),
        ("python313-cpu-avx3", None, "unknown-isa"),
        ("python311-cuda13_1-sm90-avx2", None, "pin-no-python"),
        ("python313-cuda12_5-sm90-avx2", None, "no-line"),
    ],
)
def test_a_rejected_cell_says_why_by_a_stable_code(cell: str, line: str | None, code: str) -> None:
    decision = decide(cell, line)
    assert isinstance(decision, Rejected)
    assert code in [why.code for why in decision.reasons], decision.reasons
    assert code in explain(f"pytorch-{cell}", CATALOG, line).codes


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("python313-cuda13_0-sm121-avx2", "no-machine"),
        ("python313-cuda12_9-sm87-armv9", "no-machine"),
        ("python313-cuda12_4-sm90-avx2", "unproved"),
        ("python313-cuda13_1-sm90-avx2", "unproved"),
    ],
)
def test_a_doubtful_cell_is_accepted_with_its_doubt(cell: str, code: str) -> None:
    decision = decide(cell)
    assert isinstance(decision, Accepted)
    assert code in [one.code for one in decision.warnings]
    assert explain(f"pytorch-{cell}", CATALOG).codes == tuple(one.code for one in decision.warnings)


@pytest.mark.parametrize(("line", "generated"), [("2.10", True), ("2.8", False), ("9.9", True), (None, True)])
def test_a_cell_is_generated_if_its_own_line_has_it_or_no_known_line_is_stated(
    line: str | None, generated: bool
) -> None:
    cell = Variant.parse("pytorch-python313-cuda13_0-sm120-avx512", CATALOG)
    assert (why_not_generated(cell, CATALOG, line) == "") is generated


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
            assert explain(variant.name, CATALOG).build is not None
    assert accepted > 500
    assert rejected > 500


def test_what_is_kept_of_one_decision_never_speaks_for_another_cell() -> None:
    gpus = [Cuda(c, s) for c in list(CATALOG.cuda)[1::3] for s in list(CATALOG.gpus)[::2]]
    targets: list[Target] = [CpuOnly(), *gpus]
    cells = [
        Variant(package, python, target, isa, flavor)
        for package in CATALOG.packages.values()
        for python in (min(CATALOG.pythons), PythonVersion(3, 13))
        for target in targets
        for isa in CATALOG.isas
        for flavor in (Flavor.RELEASE, Flavor.NIGHTLY)
    ]
    kept = [assess(cell, CATALOG, line) for line in (None, "2.9") for cell in cells]
    for at, (line, cell) in enumerate(itertools.product((None, "2.9"), cells)):
        _decisions.cache_clear()
        assert assess(cell, CATALOG, line) == kept[at], (cell, line)


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
    build = explain("pytorch-python313-cuda13_1-sm90-avx2", CATALOG).build
    assert build
    assert any("evaluated" in text for text in build.unproved)


def test_a_cell_that_cannot_be_built_is_described_without_a_build() -> None:
    name = "pytorch-python313-cuda12_8-sm103-avx2"
    assert explain(name, CATALOG).build is None
    with pytest.raises(CannotBuild, match=r"sm103 .*12\.9"):
        describe(Variant.parse(name, CATALOG), CATALOG)


def test_a_cuda_that_the_catalog_lacks_is_unknown_and_not_impossible() -> None:
    with pytest.raises(NotKnown, match=r"CUDA 14\.0"):
        describe(Variant.parse("pytorch-python313-cuda14_0-sm90-avx2", CATALOG), CATALOG)


@pytest.mark.parametrize(("cell", "named"), [("cpu-avx2", "the CPU"), ("cuda13_0-sm90-avx2", "CUDA 13.0")])
def test_a_release_without_a_nixpkgs_names_what_it_lacks_one_for(cell: str, named: str) -> None:
    decision = decide(f"python313-{cell}", "2.14")
    assert isinstance(decision, Rejected)
    [reason] = [reason for reason in decision.reasons if reason.code == "no-pin"]
    assert reason.text.endswith(f" for {named}")
