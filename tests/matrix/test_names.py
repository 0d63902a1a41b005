"""Names go both ways, and every old spelling can still be read."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from torchsmith.catalog import CudaVersion, PythonVersion, Sm, builtin_catalog
from torchsmith.catalog.load import SHIPPED, Catalog, Layer
from torchsmith.matrix import BadName, CpuOnly, Cuda, Flavor, Rejected, Variant, assess, pname, read_name
from torchsmith.matrix.variant import package_name

CATALOG = builtin_catalog()
targets = st.one_of(
    st.just(CpuOnly()),
    st.builds(
        Cuda,
        st.builds(CudaVersion, st.integers(1, 99), st.integers(0, 99)),
        st.builds(Sm, st.integers(10, 999)),
    ),
)
variants = st.builds(
    Variant,
    st.sampled_from(list(CATALOG.packages.values())),
    st.builds(PythonVersion, st.just(3), st.integers(0, 99)),
    targets,
    st.sampled_from(list(CATALOG.isas)),
    st.sampled_from(Flavor),
    st.sampled_from([None, *(line.release for line in CATALOG.lines.values() if line.prefix != "pytorch")]),
)


def called(variant: Variant) -> list[str]:
    """The lines that the release in a variant's name can be of."""
    package = variant.package.name
    digits = variant.release.of(package) if variant.release else ""
    return [line.name for line in CATALOG.lines.values() if line.release.of(package) == digits]


@given(variants)
def test_a_variant_reads_its_own_name(variant: Variant) -> None:
    assume(variant.release is None or len(called(variant)) == 1)
    reading = read_name(variant.name, CATALOG)
    assert reading.variant == variant
    assert reading.canonical
    assert read_name(f"{variant.name}.nix", CATALOG).variant == variant


def test_a_companion_that_several_lines_have_is_called_by_torch_but_in_the_oldest() -> None:
    variant = Variant.parse("torchaudio211-python313-cuda13_0-sm90-avx2", CATALOG)
    assert called(variant) == ["2.11"]
    names = {line: CATALOG.lines[line].release.of("torchaudio") for line in ("2.11", "2.12", "2.15")}
    assert names == {"2.11": "211", "2.12": "212", "2.15": "215"}
    releases = [line.release for line in CATALOG.lines.values() if line.torch]
    for package in ("pytorch", "torchvision", "torchaudio"):
        assert len({release.of(package) for release in releases}) == len(releases)


@given(variants, st.sampled_from(list(CATALOG.lines.values())))
def test_a_pname_says_which_variant_it_is(variant: Variant, line) -> None:  # type: ignore[no-untyped-def]
    variant = replace(variant, release=None)
    read = read_name(pname(variant, line), CATALOG).variant
    assert replace(read, release=None) == variant
    released = line.torch and variant.package.is_torch
    assert read.release == (line.release if released else None)


@pytest.mark.parametrize(
    ("name", "variant", "flavor", "old"),
    [
        ("pytorch-python313-cpu-avx2", "pytorch-python313-cpu-avx2", "", 0),
        ("pytorch210-python313-cuda13_0-sm120-avx512", "pytorch210-python313-cuda13_0-sm120-avx512", "", 0),
        ("pytorch-python313-cuda13_0-sm110-armv8.2", "pytorch-python313-cuda13_0-sm110-armv8_2", "", 1),
        ("pytorch-python313-cuda13_0-sm120-avx512-magma", "pytorch-python313-cuda13_0-sm120-avx512", "", 1),
        (
            "pytorch-python313-cuda13_0-sm121-armv9-nightly",
            "pytorch-python313-cuda13_0-sm121-armv9-nightly",
            "nightly",
            0,
        ),
        (
            "pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper",
            "pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper",
            "nightly-wrapper",
            0,
        ),
    ],
)
def test_every_spelling_in_use_is_read(name: str, variant: str, flavor: str, old: int) -> None:
    reading = read_name(name, CATALOG)
    assert reading.variant.name == variant
    assert reading.variant.flavor == flavor
    assert len(reading.old) == old


@pytest.mark.parametrize(
    ("name", "column", "what"),
    [
        ("", 1, "missing"),
        ("pytroch-python313-cpu-avx2", 1, "pytorch?"),
        ("pytorch-py313-cpu-avx2", 9, "'py313'"),
        ("pytorch-python313-gpu-avx2", 19, "'gpu'"),
        ("pytorch-python313-cuda13_0-avx2", 28, "'avx2'"),
        ("pytorch-python313-cuda13_0-sm120", 33, "missing"),
        ("pytorch-python313-cpu-avx2-fast", 28, "'fast'"),
        ("pytorch-python313-cpu-avx2-", 28, "''"),
        ("pytorch-python313-cpu-AVX2", 23, "'AVX2'"),
    ],
)
def test_a_bad_name_says_what_is_wrong_and_where(name: str, column: int, what: str) -> None:
    with pytest.raises(BadName) as caught:
        read_name(name, CATALOG)
    assert caught.value.column == column
    assert what in caught.value.what


CELL = "python313-cuda12_9-sm90-avx2"


def test_a_prefix_names_the_line_in_every_package() -> None:
    torch = Variant.parse(f"pytorch28-{CELL}", CATALOG)
    vision = torch.of(CATALOG.packages["torchvision"])
    assert vision.name == f"torchvision023-{CELL}"
    assert Variant.parse(vision.name, CATALOG) == vision
    assert torch.stack == vision.stack != Variant.parse(f"pytorch-{CELL}", CATALOG).stack
    decision = assess(torch, CATALOG, "2.10")
    assert not isinstance(decision, Rejected)
    assert decision.line.name == "2.8"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("pytorch28-python313-cuda13_0-sm90-avx2", "line-no-cuda"),
        ("torchvision023-python313-cuda13_0-sm90-avx2", "line-no-cuda"),
        ("pytorch17-python313-cuda13_0-sm90-avx2", "unknown-release"),
    ],
)
def test_a_prefix_whose_line_cannot_build_the_cell_is_refused(name: str, code: str) -> None:
    decision = assess(Variant.parse(name, CATALOG), CATALOG)
    assert isinstance(decision, Rejected)
    assert code in [reason.code for reason in decision.reasons]


MORE = """
[mix]
title = "Mix"
attr = "mix"
needs = ["pytorch"]
source = "a test"

[mix-attn]
title = "MixAttention"
attr = "mix-attn"
needs = ["pytorch"]
source = "a test"
"""


def test_a_package_of_the_catalog_in_use_is_a_name() -> None:
    catalog = Catalog([SHIPPED, Layer({"packages": MORE})])
    for package in ("mix", "mix-attn"):
        name = f"{package}-python313-cuda12_9-sm90-avx512"
        assert Variant.parse(name, catalog).package.name == package
        assert Variant.parse(name, catalog).name == name
        assert Variant.try_parse(name, CATALOG) is None


def test_a_recipe_is_named_after_its_file_or_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert package_name("pkgs/pytorch-mine.nix") == "pytorch-mine"
    assert package_name(Path("pkgs/pytorch-mine/default.nix")) == "pytorch-mine"
    (tmp_path / "pytorch-here").mkdir()
    monkeypatch.chdir(tmp_path / "pytorch-here")
    assert package_name("default.nix") == "pytorch-here"
