"""What is written is read back the same, whatever is in it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.core.problem import Invalid, TooLarge, Where
from torchsmith.core.toml import read_table
from torchsmith.core.toml_edit import Inline, table_text

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain = st.one_of(text, st.booleans(), st.integers(-(2**53), 2**53), st.lists(text, max_size=12))
inline = st.dictionaries(text, plain, min_size=1, max_size=3).map(Inline)
values = st.one_of(plain, inline, st.lists(inline, min_size=1, max_size=2))
blocks = st.lists(st.dictionaries(text, plain, min_size=1, max_size=3), min_size=1, max_size=3)
tables: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(text, values, min_size=1, max_size=4),
    lambda inner: st.dictionaries(text, st.one_of(values, blocks, inner), min_size=1, max_size=4),
    max_leaves=6,
)


@given(tables)
def test_a_table_is_read_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(table_text(table)) == table


def test_it_reads_as_people_write() -> None:
    table = {
        "format": 1,
        "line": "2.10",
        "source": Inline(owner="pytorch", repo="audio"),
        "matrix": [{"sm": ["sm90", "sm120"]}, {"isa": ["avx2"]}],
        "2.9": {"cuda": {"12.8": {"pin": "6a030d5"}}},
    }
    assert (
        table_text(table)
        == """\
format = 1
line = "2.10"
source = {owner = "pytorch", repo = "audio"}

[[matrix]]
sm = ["sm90", "sm120"]

[[matrix]]
isa = ["avx2"]

["2.9".cuda."12.8"]
pin = "6a030d5"
"""
    )


@pytest.mark.parametrize("value", ['"x', "'x", "x", "[1", "1 2"])
def test_a_mistake_is_shown_with_its_place(value: str) -> None:
    with pytest.raises(Invalid, match="not valid TOML") as caught:
        read_table(f"format = 1\na = {value}", "x.toml")
    assert caught.value.where is not None
    assert caught.value.where.line == 2
    assert caught.value.hint == f"the line is: a = {value}"


def test_a_key_of_too_many_parts_is_refused_in_its_line() -> None:
    with pytest.raises(TooLarge) as caught:
        read_table(f"format = 1\na{'.b' * 3000} = 1", "x.toml")
    assert caught.value.where == Where("x.toml", 2, 1)


def test_a_long_list_has_a_line_for_each_value() -> None:
    names = [f"pytorch-python313-cuda13_0-sm{number}-avx512" for number in (90, 100, 120)]
    written = table_text({"include": names})
    assert written.splitlines()[1] == f'    "{names[0]}",'
    assert tomllib.loads(written) == {"include": names}
