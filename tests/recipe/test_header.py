"""The header tells whose a file is, and notices a hand edit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchsmith.recipe.header import MARKS, owner_of, read_header, with_header

bodies = st.text(st.characters(blacklist_categories=["Cs"]), max_size=200)


@given(bodies, st.sampled_from(list(MARKS)))
def test_a_file_that_we_wrote_is_ours(body: str, ending: str) -> None:
    text = with_header(body, "variant=a line=2.10", ending)
    assert owner_of(text) == "ours"
    header = read_header(text)
    assert header is not None
    assert header.facts == {"variant": "a", "line": "2.10"}


@given(bodies, st.data())
def test_any_edit_below_the_header_is_noticed(body: str, data: st.DataObject) -> None:
    text = with_header(body, "variant=a line=2.10", ".nix")
    start = text.index("\n") + 1
    at = data.draw(st.integers(start, len(text)))
    changed = text[:at] + "x" + text[at:]
    assert owner_of(changed) == "edited"


@given(bodies)
def test_a_file_without_our_header_is_not_ours(body: str) -> None:
    assert owner_of(body) == "foreign"
    assert owner_of("\n" + with_header(body, "variant=a line=1", ".nix")) == "foreign"
