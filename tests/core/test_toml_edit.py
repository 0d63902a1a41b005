"""A value is added to a TOML file in whatever manner the file is written, and taken out again."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from torchsmith.core.problem import Invalid
from torchsmith.core.toml_edit import drop, merged, set_list, set_string

MANNERS = {
    "nothing": "",
    "a comment": "# ours\n",
    "a table": '[pin]\nrev = "1"  # why\n',
    "no line end": '[pin]\nrev = "1"',
    "dotted keys": '"pin".rev = "1"\n\n[other]\nrev = "2"\n',
    "dotted keys in a table": '[other]\nrev = "2"\n\n[pin]\nrev.of = "1"\n',
    "a table below": '[pin.rev]\nof = "1"\n',
    "a table beside": '[other]\nrev = "2"\n',
}


@pytest.mark.parametrize("text", MANNERS.values(), ids=MANNERS)
def test_a_value_is_added_and_taken_out(text: str) -> None:
    before = tomllib.loads(text)
    added = set_string(text, ("pin", "new"), "3")
    wanted: dict[str, Any] = {**before, "pin": {**before.get("pin", {}), "new": "3"}}
    assert tomllib.loads(added) == wanted
    assert "# why" not in text or "# why" in added
    assert tomllib.loads(drop(added, "pin", "new")) == before


def test_a_dotted_key_below_a_table_takes_a_neighbour() -> None:
    added = set_string('[a]\nb.c = "1"\n', ("a", "b", "d"), "2")
    assert tomllib.loads(added) == {"a": {"b": {"c": "1", "d": "2"}}}


def test_a_key_of_the_file_itself_stands_before_its_tables() -> None:
    assert tomllib.loads(set_string('[a]\nb = "1"\n', ("line",), "2.10")) == {"line": "2.10", "a": {"b": "1"}}


def test_a_value_is_added_to_an_inline_table_and_not_to_a_number() -> None:
    added = set_string('pin = { rev = "1" }\n', ("pin", "new"), "3")
    assert tomllib.loads(added) == {"pin": {"rev": "1", "new": "3"}}
    with pytest.raises(Invalid) as problem:
        set_string("pin = 1\n", ("pin", "new"), "3")
    assert problem.value.path == ("pin",)


def test_tables_below_stay_where_a_value_goes() -> None:
    text = '# why\n[pin.limits.ours]\nreason = "2"\n'
    dropped = drop(set_string(text, ("pin", "new"), "3"), "pin", "new")
    assert tomllib.loads(dropped) == tomllib.loads(text)
    assert "# why" in dropped


@pytest.mark.parametrize("mark", ["\u2028", "\u0085"])
def test_what_ends_a_line_elsewhere_ends_none_in_toml(mark: str) -> None:
    text = f'# a{mark}b\n\n[x]\ny = 1\n\n[z]\nq = "{mark}"\n'
    assert drop(text, "x") == f'# a{mark}b\n\n[z]\nq = "{mark}"\n'


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_element_on_its_own_line_goes_with_its_comment(end: str) -> None:
    lines = ["packages = [", '  "a", # one', "  'b', # two", '  "c" # three', "]", ""]
    kept = set_list(end.join(lines), "packages", ["a"])
    assert kept == end.join([*lines[:2], *lines[4:]])


def test_many_elements_go_at_once() -> None:
    assert set_list('packages = ["a", "b", "c"]\n', "packages", ["a"]) == 'packages = ["a"]\n'


@pytest.mark.parametrize("left", ["a", "b"])
def test_an_element_goes_with_its_comma_wherever_that_stands(left: str) -> None:
    text = 'packages = [\n "a" # one\n ,\n "b" # two\n]\n'
    assert tomllib.loads(set_list(text, "packages", [left])) == {"packages": [left]}


def test_a_table_is_merged_into_what_people_wrote() -> None:
    text = '# ours\n["2.10".cuda."13.0"]\npin = "a" # why\nfixes = ["x"]\n'
    new = {"2.10": {"cuda": {"13.0": {"pin": "b"}}, "cpu": {"pin": "b"}}, "2.9": {"torch": "2.9.1"}}
    made = merged(text, new)
    assert "# ours\n" in made
    assert "# why" in made
    assert tomllib.loads(made) == {
        "2.10": {"cuda": {"13.0": {"pin": "b", "fixes": ["x"]}}, "cpu": {"pin": "b"}},
        "2.9": {"torch": "2.9.1"},
    }
    assert merged(made, new) == made
