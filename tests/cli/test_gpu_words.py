"""A GPU that is not known is the same error wherever it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call

PLACES = (
    ("pick",),
    ("pick", "--gpu"),
    ("list",),
    ("show",),
    ("init", "x", "--for"),
    ("verify", "sample", "--gpu"),
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RTX4900", "RTX 4090"),
        ("rtx 4090 ti", "sm89"),
        ("RTX 9999", "sm89"),
        ("H10", "H100"),
        ("Gaudi 3", "--gpu none"),
    ],
)
def test_every_verb_says_the_same_of_an_unknown_gpu(
    name: str, hint: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = {(answer.code, answer.err) for answer in (call(*place, name) for place in PLACES)}
    [(code, said)] = answers
    assert code == 2
    assert said.startswith(f"error: unknown GPU '{name}'\n")
    assert hint in said


def test_several_gpus_are_given_in_a_word(call: Call) -> None:
    words, option = ("pick", "2x A100 + RTX 4090"), ("pick", "--gpu", "2x A100 + RTX 4090")
    machine = ("--cpu", "zen4", "--driver", "580", "--names")
    assert call(*words, *machine).out == call(*option, *machine).out != ""
