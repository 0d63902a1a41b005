"""A GPU that is not known is the same error wherever it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.cli.completion import candidates

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
        ("RTX4900", "sm89"),
        ("rtx 4090 ti", "sm89"),
        ("RTX 9999", "sm89"),
        ("H10", "sm89"),
        ("Gaudi 3", "give none as the GPU"),
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


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (("RTX 4090, RTX 4090 Ti",), "GPU 'RTX 4090 Ti'"),
        (("RTX", "3090,", "RTX", "4090", "Ti"), "'Ti'"),
        (("7950X RTX 4090",), "'7950X RTX 4090'"),
        (("7950X", "RTX", "4090"), "'7950X'"),
    ],
)
def test_a_word_that_is_not_read_is_named(words: tuple[str, ...], unknown: str, call: Call) -> None:
    answer = call("pick", *words)
    assert (answer.code, answer.error) == (2, "not-known")
    assert f"{unknown}\n" in answer.err


MACHINE = ("--cpu", "zen4", "--driver", "580")


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (("pick", "RTX", "4090", "avx2", *MACHINE), ("pick", "RTX 4090", "avx2", *MACHINE)),
        (("pick", "avx2", "8x", "H100", "sm90", *MACHINE), ("pick", "avx2", "8x H100", "sm90", *MACHINE)),
        (
            ("pick", "RTX", "4090", "package:torchvision", *MACHINE),
            ("pick", "--gpu", "RTX 4090", "package:torchvision", *MACHINE),
        ),
        (("pick", "Ryzen", "7950X", "RTX", "4090"), ("pick", "--cpu", "zen4", "--gpu", "RTX 4090")),
        (("list", "RTX", "4090", "avx2"), ("list", "RTX 4090", "avx2")),
        (("pick", "RTX", "4090", "RTX", "3090"), ("pick", "RTX 4090", "RTX 3090")),
        (("list", "Tesla", "V100", "Tesla", "T4"), ("list", "Tesla V100", "Tesla T4")),
        (("show", "RTX", "4090"), ("show", "RTX 4090")),
    ],
)
def test_words_that_name_a_product_together_need_no_quotes(
    words: tuple[str, ...],
    quoted: tuple[str, ...],
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer, wanted = call(*words, "--json"), call(*quoted, "--json")
    assert (answer.code, answer.out) == (wanted.code, wanted.out)
    assert answer.code == 0


def test_a_sentence_is_an_error_that_says_how_it_is_read(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (("RTX 3080, Ubuntu",), ("RTX", "3080,", "Ubuntu"), ("RTX 3080 with nouveau",)):
        answer = call("pick", *words)
        assert answer.code == 2
        assert f"echo '{' '.join(words)}' | torchsmith pick --from -" in answer.err
    assert "--from" not in call("pick", "RTX", "4900", "Ubuntu").err
    assert "for a Mac: 'Apple M3'" in call("pick", "--gpu", "M3").err
    assert call("pick", "zen4", "--cpu", "zen3").code == 2
    assert "torchsmith pick --cpu zen4" in call("list", "Ryzen 7950X").err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("Intel", "Arc"), "PyTorch has wheels"),
        (("Steam", "Deck"), "gfx1033"),
        (("sm72",), "JetPack 5"),
        (("MI25",), "torchsmith show MI25"),
        (("GTX", "980"), "driver 580 is the last"),
        (("RK3588",), "torchsmith pick --cpu cortex_a76"),
        (("Raspberry", "Pi", "5"), "torchsmith pick --cpu cortex_a76"),
        (("Raspberry", "Pi"), "Raspberry Pi 3, Raspberry Pi 4 or Raspberry Pi 5"),
    ],
)
def test_hardware_without_builds_gets_the_reason(call: Call, words: tuple[str, ...], answer: str) -> None:
    result = call("list", *words)
    assert result.code == 2
    assert answer in result.err


@pytest.mark.parametrize("words", [("no", "gpu"), ("No", "GPU"), ("none",), ("no", "gpu", "avx2")])
def test_no_gpu_is_understood_in_words(call: Call, words: tuple[str, ...]) -> None:
    report = json.loads(call("pick", "--cpu", "zen4", *words, "--json").out)
    assert report["host"]["gpus"]["value"] == []
    assert all("-cpu-" in row["name"] for row in report["choice"])


def test_a_retired_architecture_gets_what_is_known_of_it(call: Call) -> None:
    report = json.loads(call("pick", "sm72", "--json").out)
    assert report["unserved"] == ["sm72"]
    assert any("JetPack 5" in text for text in report["missing"])


def test_a_build_beside_a_wheel_says_how_they_differ(call: Call) -> None:
    machine = ("pick", "--cpu", "zen4", "none")
    report = json.loads(call(*machine, "--json").out)
    [build], [wheel] = report["choice"], report["wheels"]
    assert build["isa"] == "avx512"
    assert [build["name"] in line for line in call(*machine).out.splitlines()[4:]] == [True, False]
    out = call(*machine, "--explain").out
    different = f"torch {build['torch']}, not {wheel['torch']}; all CPU code for avx512"
    assert f"unlike the wheel: {different}" in out


def test_the_exit_code_is_0_if_a_wheel_or_build_uses_the_gpus_or_there_is_none(call: Call) -> None:
    for words, code in (
        (("RTX 4090",), 0),
        (("Arc A770",), 0),
        (("MI300X",), 0),
        (("none",), 0),
        (("Arc A770", "--system", "windows"), 0),
        (("RTX 4090", "--system", "windows"), 0),
        (("K80",), 1),
        (("RX 580",), 1),
        (("Arc A770", "--system", "aarch64"), 1),
    ):
        machine = () if "--system" in words else ("--cpu", "zen4")
        assert (call("pick", "--gpu", *words, *machine).code, words) == (code, words)


def test_a_build_for_the_cpu_says_that_it_leaves_a_gpu_of_intel_idle(call: Call) -> None:
    report = json.loads(call("pick", "--gpu", "Arc A770", "--cpu", "zen4", "--json").out)
    assert [row["idle"] for row in report["choice"]] == [["Arc A770"]]


@pytest.mark.parametrize(("torch", "near"), [("2.12.0", "2.12.1"), ("2.9.0", "2.9.1"), ("2.14.0", "2.14.1")])
def test_a_release_that_does_not_serve_names_the_nearest(call: Call, torch: str, near: str) -> None:
    result = call("pick", "--torch", torch, "RTX 4090", "--cpu", "zen4")
    assert f"nearest is {'torch ' if torch == '2.14.0' else ''}{near}" in result.out + result.err
    assert result.code == (1 if torch == "2.14.0" else 2)


@pytest.mark.parametrize("count", ["-1x", "0x", "65x", "100000x"])
def test_a_number_of_gpus_that_no_machine_has_is_an_error(call: Call, count: str) -> None:
    answer = call("pick", f"--gpu={count} H100")
    assert (answer.code, "give 1 to 64" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("start", "name"), [("RX 79", "RX 7900 XTX"), ("MI3", "MI300X"), ("Arc", "Arc A770")]
)
def test_gpus_of_amd_and_intel_are_completed(start: str, name: str) -> None:
    assert name in [candidate for candidate, _ in candidates(["pick", "--gpu", start])]
