"""Selectors: same axis, either; different axes, both; `!`, not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.core.problem import Empty, Invalid, NotKnown, Problem
from torchsmith.matrix.cells import nearest_allowed
from torchsmith.matrix.variant import Variant
from torchsmith.workspace.load import DEFAULT, open_workspace

WORKSPACE = open_workspace(DEFAULT, "seed")


def count(*words: str) -> int:
    return len(WORKSPACE.select(words).cells)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), 132),
        (("sm120",), 12),
        (("sm9*",), 12),
        (("cpu",), 12),
        (("gpu",), 120),
        (("avx512*",), 90),
        (("package:torchvision",), 44),
        (("torchvision", "torchaudio"), 88),
        (("sm120", "sm90", "avx512"), 6),
        (("sm120,sm90 avx512",), 6),
        (("aarch64",), 12),
        (("!cpu", "!arm*"), 108),
        (("sm110", "sm121", "!x86_64"), 12),
        (("cuda13_0",), 120),
        (("3.13", "line:2.10"), 132),
        (("pytorch-python313-cpu-avx2", "torchvision-python313-cpu-avx2"), 2),
        (("pytorch-*-sm120-*",), 4),
        (("sm:12.0",), 12),
        (("h100",), 12),
        (("RTX 5090", "avx512"), 3),
    ],
)
def test_text_pick_variants(words: tuple[str, ...], expected: int) -> None:
    assert count(*words) == expected


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("sm9999", NotKnown, "'sm9999'"),
        ("axv512", NotKnown, "avx512?"),
        ("RTX 2080", Empty, "RTX 2080"),
        ("zen3", NotKnown, "avx, avx2"),
        ("Genoa", NotKnown, "Zen 4"),
        ("gpu:sm90", NotKnown, "'gpu'"),
        ("sm:", Invalid, "sm:"),
        ("sm75", Empty, "sm75"),
        ("package:torchvison", Empty, "did you mean torchvision?"),
    ],
)
def test_a_word_that_picks_nothing_is_refused_with_the_nearest(
    word: str, kind: type[Problem], said: str
) -> None:
    with pytest.raises(kind) as caught:
        count(word)
    assert said in str(caught.value)


@pytest.mark.parametrize("word", ["Threadripper", "Meteor", "piledrive"])
def test_a_word_that_is_like_no_other_gets_no_suggestion(word: str) -> None:
    with pytest.raises(NotKnown) as caught:
        count(word)
    assert "?" not in caught.value.hint


@given(
    st.lists(
        st.sampled_from(["sm120", "sm9*", "cpu", "avx2", "avx512*", "torchaudio", "!sm90", "!cpu"]),
        max_size=5,
    )
)
def test_the_order_of_words_does_not_matter(words: list[str]) -> None:
    def chosen(order: list[str]) -> list[str] | str:
        try:
            return [cell.name for cell in WORKSPACE.select(order).cells]
        except Problem as problem:
            return problem.code()

    assert chosen(words) == chosen(words[::-1])


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("13.7", "CUDA 13.0, CUDA 13.1"),
        ("2.16", "line 2.10"),
    ],
)
def test_another_release_is_no_misspelling_and_what_there_is_is_listed(word: str, known: str) -> None:
    with pytest.raises(NotKnown) as caught:
        count(word)
    assert "?" not in caught.value.hint
    assert known in caught.value.hint


def test_nothing_is_near_hardware_that_nobody_knows() -> None:
    catalog = WORKSPACE.catalog
    for name in ("pytorch-python313-cuda13_0-sm95-avx512", "pytorch-python313-cuda13_0-sm90-avx51"):
        assert nearest_allowed(Variant.parse(name, catalog), catalog) == []


def test_a_build_is_found_by_its_whole_name() -> None:
    last = WORKSPACE.matrix.cells[-1]
    assert WORKSPACE.matrix.find(last.name) is last
    assert WORKSPACE.matrix.find("pytorch") is None
