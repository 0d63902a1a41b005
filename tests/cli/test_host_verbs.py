"""The verbs host, pick and cover as a user meets them."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Result
from tests.host.machines import corpus
from torchsmith.catalog import PythonVersion, builtin_catalog
from torchsmith.core.cores import usable_cores
from torchsmith.host.active import active_python
from torchsmith.nix.prepare import source_hash
from torchsmith.record import Built, VerificationRow, open_record

NEWEST = next(iter(builtin_catalog().published_wheels.values())).torch  # the file has the newest first
ZEN4 = ("--cpu", "zen4", "--gpu", "RTX 4090", "--driver", "570.124.06")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torchsmith.host.detect.active_python", lambda: None)


def reports(name: str) -> list[str]:
    """Write a known machine's reports here; options that name them."""
    words = []
    for report in corpus()[name].reports:
        Path(f"{report.tool}.txt").write_text(report.text)
        words += ["--from", f"{report.tool}.txt"]
    return words


def with_tools(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """A machine that has these programs alone."""
    folder = Path("tools-here")
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder.absolute()))


CELL = "pytorch-python313-cuda12_8-sm89-avx512"


def test_without_a_workspace_the_answer_makes_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with_tools(monkeypatch, "nix-build")
    result = call("pick", "--org", "acme", *ZEN4)
    assert result.code == 0
    assert f"flox install acme/{CELL}\n" in result.out
    made = f"torchsmith init mine --cell {CELL} && torchsmith apply -w mine"
    assert f"build {made} && torchsmith build -w mine {CELL}" in " ".join(result.out.split())
    assert f"{CELL} (torch 2.10.0; also torchvision, torchaudio)" in result.out
    Path("mine").mkdir()
    assert "torchsmith init mine-2 --cell" in call("pick", "--profile", "wide", *ZEN4).out


def test_the_commands_of_an_answer_run_from_here(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ["PATH"]
    call("init", "mine", "--cell", CELL)
    with_tools(monkeypatch, "nix-build", "flox")
    out = call("pick", "-w", "mine", *ZEN4).out
    assert f"  build   torchsmith apply -w mine &&\n          torchsmith build -w mine {CELL}\n" in out
    assert "nix-build" not in out
    monkeypatch.setenv("PATH", path)
    assert call("apply", "-w", "mine").code == 0
    with_tools(monkeypatch, "nix-build", "flox")
    out = call("pick", "-w", "mine", *ZEN4).out
    assert f"  build   torchsmith build -w mine {CELL}\n" in out
    assert "nix-build" not in out, "the answer has one command"
    monkeypatch.chdir("mine")
    assert f"  build   torchsmith build {CELL}\n" in call("pick", *ZEN4).out


def test_no_command_is_shown_that_cannot_run_here(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with_tools(monkeypatch)
    out = call("pick", "--profile", "wide", *ZEN4).out
    assert f"  write   torchsmith init mine --cell {CELL} &&\n          torchsmith apply -w mine\n" in out
    for word in ("nix-build", "flox", "torchsmith build", "ORG"):
        assert word not in out
    assert "torchsmith doctor" not in out  # it is about another machine
    assert "torchsmith doctor" in call("pick", "--gpu", "none").out
    with_tools(monkeypatch, "flox")
    flox = f"          flox build -d mine/build-pytorch {CELL}\n"
    assert f"apply -w mine &&\n{flox}" in call("pick", *ZEN4).out


def test_the_line_that_installs_names_the_organisation(call: Call) -> None:
    assert f"flox install acme/{CELL}" in call("pick", "--profile", "wide", "--org", "acme", *ZEN4).out
    call("init", ".", "--profile", "wide")
    Path("torchsmith.toml").write_text(Path("torchsmith.toml").read_text() + '\norg = "acme"\n')
    assert f"flox install acme/{CELL}" in call("pick", *ZEN4).out


@pytest.mark.parametrize(
    ("machine", "torch", "cuda", "loss"),
    [
        (ZEN4, "2.14.1", "12.6", "sm86"),
        (("--cpu", "zen4", "--gpu", "A100", "--driver", "535.104"), "2.14.1", "12.6", "compatibility"),
        (("--cpu", "zen4", "--gpu", "RTX 5090", "--driver", "550"), NEWEST, "", "idle"),
    ],
)
def test_the_wheel_is_one_that_runs_and_says_what_is_lost(
    machine: tuple[str, ...], torch: str, cuda: str, loss: str, call: Call
) -> None:
    [stock] = json.loads(call("pick", "--json", *machine).out)["wheels"]
    assert stock["cuda"] == cuda
    assert any(loss in text for text in stock["drawbacks"])
    assert stock["pip"].startswith(f"pip install torch=={torch}")
    assert stock["uv"] == f"uv {stock['pip']}"


def test_without_a_workspace_builds_for_every_python_are_candidates(call: Call) -> None:
    report = json.loads(call("pick", "--python", "3.12", *ZEN4, "--json").out)
    assert report["served"]
    assert [row["name"] for row in report["choice"]] == ["pytorch-python312-cuda12_8-sm89-avx512"]
    assert len(report["choice"][0]["companions"]) == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--python", "3.12.4"), 2),
        (("--torch", "2.99"), 2),
        (("--torch", "v2.12"), 2),
        (("--python", "3.9"), 0),  # wheels alone
        (("--python", "2.7"), 1),
    ],
)
def test_a_release_that_is_not_known_is_an_error(words: tuple[str, ...], code: int, call: Call) -> None:
    assert call("pick", *words).code == code


def test_a_release_that_cannot_be_built_yet_says_what_it_lacks(call: Call) -> None:
    report = json.loads(call("pick", "--torch", "2.12", *ZEN4, "--json").out)
    assert not report["choice"]
    assert [wheel["torch"] for wheel in report["wheels"]] == ["2.12.1"]
    assert any("fix-hashes" in text for text in report["missing"])
    assert report["missing"][-1].endswith("then run this again, with -w and the folder")


def test_pip_without_a_wheel_says_so(call: Call) -> None:
    refused = call("pick", "--pip", "--python", "3.8", *ZEN4)
    assert (refused.code, refused.out) == (1, "")
    assert "none of torch 2.8 or newer for x86_64-linux is for Python 3.8" in refused.err
    idle = call("pick", "--pip", "--cpu", "zen4", "--gpu", "RTX 5080", "--driver", "565")
    assert (idle.code, idle.out) == (1, "")  # not the wheel that would leave it idle
    assert "every wheel of torch 2.8 or newer for it needs 570 or newer; --gpu none" in idle.err


COLLECTED = """PyTorch version: N/A
OS: {os}
Libc version: glibc-{glibc}
Python version: {python} (main, Sep 11 2023, 13:41:44)  [GCC 11.2.0] (64-bit runtime)
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090
Nvidia driver version: 570.169
"""


def test_the_python_and_the_c_library_of_a_report_decide_on_the_wheel(call: Call) -> None:
    def asked(python: str, glibc: str = "2.35", system: str = "Ubuntu 22.04.4 LTS (x86_64)") -> Result:
        Path("env.txt").write_text(COLLECTED.format(os=system, glibc=glibc, python=python))
        return call("pick", "--from", "env.txt", "--pip")

    assert asked("3.9.18").out == "pip install torch==2.8.0\n"
    assert asked("3.12.3").out.split()[2] == "torch==2.14.1"
    assert "Python         3.12" in call("pick", "--from", "env.txt", "--facts").out
    Path("env.json").write_text(call("pick", "--from", "env.txt", "--facts", "--json").out)
    assert json.loads(Path("env.json").read_text())["python"]["value"] == "3.12"
    for refused, why in (
        (asked("3.8.10", system="Microsoft Windows 11 Pro"), " is for Python 3.8"),
        (
            asked("3.12.3", "2.17", "CentOS Linux 7 (Core) (x86_64)"),
            " is for glibc 2.17",
        ),
    ):
        assert (refused.code, refused.out) == (1, "")
        assert why in refused.err
    assert "PyTorch has no wheel: none of torch 2.8 or newer" in call("pick", "--from", "env.txt").out


@pytest.mark.parametrize(
    ("system", "first", "torch", "code"),
    [
        (("macos",), "macOS; ", NEWEST, 0),
        (("macOS 13",), "macOS 13; ", "2.8.0", 0),
        (("macOS 12",), "macOS 12; ", "2.11.0", 1),  # for the CPU alone
        (("macos 26", "--cpu", "m2"), "aarch64-darwin (macOS 26); ", NEWEST, 0),
    ],
)
def test_a_mac_is_a_system_with_its_release(
    system: tuple[str, ...], first: str, torch: str, code: int, call: Call
) -> None:
    result = call("pick", "--system", *system)
    assert result.code == code
    assert result.out.startswith(first)
    assert f"pip install torch=={torch}\n" in result.out
    assert call("pick", "--system", "macos 9").code == 2


def test_a_report_that_contradicts_itself_on_a_gpu_is_a_condition(call: Call) -> None:
    header = "name, compute_cap, driver_version"
    Path("gpu.csv").write_text(f"{header}\nNVIDIA GeForce RTX 4090, 7.0, 570.124.06\n")
    out = " ".join(call("pick", "--from", "gpu.csv").out.split())
    assert out.count("its NVIDIA GeForce RTX 4090 is sm70, as gpu.csv says and the catalog does not") == 2


def test_what_a_report_does_not_say_is_asked_for_by_its_command(call: Call) -> None:
    Path("mail.txt").write_text("an RTX 4090\n")
    answer = json.loads(call("pick", "--from", "mail.txt", "--json").out)
    assert any("lscpu" in note for note in answer["notes"])


@pytest.mark.parametrize(("gpus", "shown"), [("A100", "A100"), ("2x A100", "2 x A100")])
def test_gpus_of_one_kind_are_counted(gpus: str, shown: str, call: Call) -> None:
    first = call("pick", "--cpu", "zen4", "--gpu", gpus, "--driver", "580").out.splitlines()[0]
    assert any(part.startswith(shown) for part in first.split("; "))


def test_an_unknown_gpu_beside_one_that_nothing_is_built_for_is_named_too(call: Call) -> None:
    Path("gpus.txt").write_text("GPU 0: GTX 970\nGPU 1: NVIDIA Foo 1234\nArchitecture: x86_64\n")
    answer = json.loads(call("pick", "--from", "gpus.txt", "--json").out)
    assert answer["unserved"] == ["sm52"]
    assert any("--gpu" in line and "Foo 1234" in line for line in answer["missing"])


def test_unknown_gpus_are_said_first(call: Call) -> None:
    Path("lscpu.txt").write_text(
        "Architecture: x86_64\nFlags: fpu sse2 ssse3 cx16 sse4_1 sse4_2 popcnt avx lm\n"
    )
    first = call("pick", "--from", "lscpu.txt").out.splitlines()[0]
    assert first.endswith("; GPU unknown")
    wheel = call("pick", "--from", "lscpu.txt", "--pip")
    assert (wheel.code, wheel.out) == (1, "")
    assert "which GPU it has, if any, is unknown" in wheel.err
    assert "GPUs unknown: this is for the CPU alone" in call("pick", "--cpu", "zen4").out.splitlines()[0]


def test_what_no_candidate_is_of_is_the_reason(call: Call) -> None:
    older = json.loads(call("pick", "cuda13_0", "--torch", "2.8", *ZEN4, "--json").out)
    assert older["missing"] == ["no candidate is of torch 2.8 and cuda13_0"]


def test_names_are_printed_of_builds_that_use_the_gpu_alone(call: Call) -> None:
    named = call("pick", "--cpu", "zen4", "RX 6600", "--names")
    assert (named.code, named.out, "leaves RX 6600 idle" in named.err) == (1, "", True)
    assert call("pick", "--cpu", "zen4", "--gpu", "none", "--names").out == "pytorch-python313-cpu-avx512\n"


@pytest.mark.parametrize(
    "text", ["macOS 12, Intel i5 Mac mini 2018", "MacBook Pro 16 inch with i9, macOS 12"]
)
def test_a_mac_with_a_cpu_of_intel_is_one_in_any_order(text: str, call: Call) -> None:
    Path("mac.txt").write_text(text)
    answer = call("pick", "--from", "mac.txt", "--pip")
    assert "torch==2.2.2" in answer.out
    assert "needs Python 3.8 to 3.12" in answer.err


def test_a_command_alone_comes_with_what_was_read_and_not_used(call: Call) -> None:
    drivers = "Nvidia driver version: 550.54.14\nNVRM version: NVIDIA 560.35.03\n"
    Path("text.txt").write_text(f"GPU 0: NVIDIA RTX 3060\n{drivers}OS: Ubuntu 22.04")
    assert "the oldest is used" in call("pick", "--from", "text.txt", "--pip").err


def test_windows_on_arm_is_not_taken_for_x86(call: Call) -> None:
    assert call("pick", "--system", "windows-arm64", "RTX 4090", "--pip").code == 1


def test_a_mac_has_no_driver_for_another_gpu(call: Call) -> None:
    result = call("pick", "--system", "macOS 14", "--gpu", "RTX 4090")
    assert (result.code, result.error) == (2, "conflict")


def test_in_a_workspace_a_missing_build_is_added_to_it(call: Call) -> None:
    call("init", ".")
    out = call("pick", "--cpu", "zen4", "MI300X").out
    assert "to include in torchsmith.toml" in out
    assert "torchsmith init" not in out


def test_a_driver_without_its_gpu_is_an_error(call: Call) -> None:
    for words in (("--cpu", "zen4"), ("--cpu", "zen4", "RX 7900 XTX")):
        result = call("pick", *words, "--driver", "570")
        assert (result.code, "add its GPU" in result.err) == (2, True)


def test_the_gpu_within_a_cpu_is_left_out_if_there_is_to_be_none(call: Call) -> None:
    Path("cpu.txt").write_text("Architecture: x86_64\nModel name: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\n")
    found = [
        json.loads(call("pick", "--from", "cpu.txt", *gpu, "--json").out)["wheels"][0]
        for gpu in ((), ("--gpu", "none"))
    ]
    assert [wheel["rocm"] for wheel in found] == ["7.2", ""]


def test_a_mac_is_not_asked_for_nvidia_smi(call: Call) -> None:
    Path("mac.txt").write_text(
        "OS: macOS 14.5 (arm64)\nPython platform: macOS-14.5-arm64-arm-64bit\n"
        "GPU models and configuration: Could not collect\nNvidia driver version: Could not collect\n"
        "CPU:\nApple M3 Max\n"
    )
    result = call("pick", "--from", "mac.txt")
    assert "nvidia" not in (result.out + result.err).lower()
    assert "CPU Apple M3" in result.out


def test_spellings_of_cpus_and_architectures_that_people_use(call: Call) -> None:
    assert call("pick", "--cpu", "Ryzen 7950X", "--gpu", "none").code == 0
    for text in ("a Ryzen 7950X and an RTX 4090, driver 570", "eine RTX 4090, Ryzen 9 7950X, Treiber 570"):
        Path("text.txt").write_text(text)
        out = call("pick", "--from", "text.txt").out
        assert "CPU Zen 4; RTX 4090; driver unknown" in out
    names = [call("list", "--names", word).out for word in ("sm89", "sm_89", "compute_89")]
    assert names[0]
    assert len({*names}) == 1
    assert call("pick", "none", "--cpu", "zen4").code == 0


def test_the_pip_command_comes_with_a_note_on_a_newer_driver(call: Call) -> None:
    result = call("pick", "--pip", "--cpu", "zen4", "--gpu", "RTX 4090", "--driver", "570.124.06")
    assert result.out.startswith("pip install torch==2.14.1 --index-url ")
    assert "note: driver 580 or newer:  pip install torch==2.15.0 --index-url " in result.err


def test_an_active_python_without_a_wheel_is_a_condition(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsmith.host.detect.active_python", lambda: PythonVersion(3, 7))
    result = call("pick", "--gpu", "none")
    assert "  needs Python 3.11 to 3.15; from release notes\n" in result.out
    assert f"torch=={NEWEST}" in call("pick", "--gpu", "none", "--pip").out


@pytest.mark.parametrize(
    ("text", "system", "needs"),
    [
        ("Ubuntu 18, RTX 4090", "", ["x86_64-linux", "Python 3.10 to 3.14", "glibc 2.28"]),
        ("Ubuntu 22.04 and Python version: 3.12, x86_64, RTX 4090", "Ubuntu 22.04", []),
        ("openSUSE Tumbleweed x86_64, RTX 4090", "", ["Python 3.10 to 3.14", "glibc 2.28"]),
        ("macOS on an Apple M3", "", ["Python 3.11 to 3.15", "macOS 14"]),
        ("Ubuntu 14.04, RTX 4090", "Ubuntu 14.04", None),
        ("CentOS 6, RTX 4090", "Enterprise Linux 6", None),
        ("SLES 12, RTX 4090", "SUSE Linux 12", None),
        ("openSUSE Leap 42.3, RTX 4090", "SUSE Linux 12", None),
    ],
)
def test_a_wheel_states_what_it_needs_and_a_text_does_not_confirm(
    text: str, system: str, needs: list[str] | None, call: Call
) -> None:
    Path("text.txt").write_text(text)
    report = json.loads(call("pick", "--from", "text.txt", "--json").out)
    assert report["host"].get("release", {}).get("value", "") == system
    assert [wheel["needs"] for wheel in report["wheels"]] == ([] if needs is None else [needs])


def test_on_nixos_builds_come_first_and_the_wheel_says_what_it_needs(call: Call) -> None:
    for text in ("ID=nixos\nVERSION_ID=25.11\nGPU 0: NVIDIA GeForce RTX 4090\n", "NixOS with an RTX 4090"):
        Path("text.txt").write_text(text)
        report = json.loads(call("pick", "--from", "text.txt", "--json").out)
        assert report["build_first"]
        assert "nix-ld" in report["wheels"][0]["needs"][-1]
        out = call("pick", "--from", "text.txt").out
        assert out.index("own build") < out.index("PyTorch's own wheel")
    Path("text.txt").write_text("a note from https://github.com/NixOS/nixpkgs: Ubuntu 22.04, RTX 4090")
    assert not json.loads(call("pick", "--from", "text.txt", "--json").out)["build_first"]


def test_words_are_equal_to_options(call: Call) -> None:
    def answered(*words: str) -> str:
        return call("pick", "--driver", "580", *words, "--json").out

    assert answered("RTX 4090", "torch:2.15") == answered("--gpu", "RTX 4090", "--torch", "2.15")
    assert answered("RTX", "4090", "python:3.12") == answered("--gpu", "RTX 4090", "--python", "3.12")
    assert "contradict" in call("pick", "torch:2.15", "--torch", "2.14").err
    for word in ("12.8", "cu128", "cuda12_8"):
        wheel = call("pick", word, "RTX 4090", "--driver", "570", "--pip").out
        assert wheel == "pip install torch==2.11.0 --index-url https://download.pytorch.org/whl/cu128\n"
    none = call("pick", "cu126", "RTX 5090", "--driver", "570", "--pip")
    assert (none.code, none.out) == (1, "")


@pytest.mark.parametrize(
    ("gpu", "system", "kind"),
    [
        ("Intel Arc A770", "x86_64-linux", "XPU"),
        ("Data Center GPU Max 1550", "x86_64-linux", "XPU"),
        ("Apple M4 Max", "aarch64-darwin", "MPS"),
        ("M4 Max", "aarch64-darwin", "MPS"),
    ],
)
def test_gpus_of_intel_and_apple_get_their_wheel(gpu: str, system: str, kind: str, call: Call) -> None:
    cpu = () if kind == "MPS" else ("--cpu", "zen4")
    report = json.loads(call("pick", *cpu, "--gpu", gpu, "--json").out)
    assert report["host"]["system"]["value"] == system
    assert [wheel["gpu"] for wheel in report["wheels"]] == [kind]
    if kind == "XPU":  # a Mac's chip is a CPU
        assert (
            json.loads(call("pick", *cpu, *gpu.split(), "avx2", "--json").out)["wheels"] == report["wheels"]
        )


@pytest.mark.parametrize("chip", ["M2 Max", "m3 ultra", "M1 Pro", "MacBook Pro M3", "Mac mini M4 Pro"])
def test_a_chip_of_apple_needs_no_maker(chip: str, call: Call) -> None:
    assert call("pick", chip).out == call("pick", f"Apple {chip}").out != ""


def test_what_cannot_be_read_is_answered_with_what_can(call: Call, tmp_path: Path) -> None:
    for path in ("nosuch.txt", str(tmp_path)):
        assert "nvidia-smi, or - for standard input" in call("pick", "--from", path).err
    assert "3.13" in call("pick", "RTX 4090", "--python", "2").err.partition("hint:")[2]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--gpu", "H100", "--python", "3.9"), "no candidate is for Python 3.9; builds are for 3.11 to 3.14"),
        (("--gpu", "T4G"), "aarch64-linux; CPU runs armv8_2; T4G"),
    ],
)
def test_what_no_build_is_for_is_said_once(args: tuple[str, ...], says: str, call: Call) -> None:
    out = call("pick", *args).out
    assert says in out
    assert "nearest:" not in out


def test_a_machine_of_a_report_is_not_called_this_one(call: Call) -> None:
    Path("smi.csv").write_text("name, compute_cap, driver_version\nNVIDIA X1, 9.5, 580.65.06\n")
    out = call("pick", "--from", "smi.csv").out
    assert "sm95 is not in the catalog: no build is known to run there" in out


def test_an_answer_with_commands_to_build_has_their_cost(call: Call) -> None:
    Path("post.txt").write_text("RTX 5070 Ti, Ubuntu 24.04\n")
    out = call("pick", "--from", "post.txt").out
    assert "torchsmith build -w mine" in out
    assert "dependencies not counted" in out


def test_the_wheel_for_jetson_is_not_called_that_of_pytorch(call: Call) -> None:
    out = call("pick", "Jetson AGX Orin").out
    assert "NVIDIA's wheel: torch 2.8.0" in out
    assert "PyTorch's own" not in out


@pytest.mark.parametrize(
    "gpu", ["Iris Xe", "UHD 620", "Intel Iris Xe", "Intel(R) UHD Graphics 770", "Intel HD 4000"]
)
def test_graphics_in_the_cpu_are_no_gpu(gpu: str, call: Call) -> None:
    assert (
        call("pick", "--cpu", "zen4", gpu, "--names").out
        == call("pick", "--cpu", "zen4", "none", "--names").out
    )


@pytest.mark.parametrize("board", ["Jetson AGX Xavier", "Jetson TX2", "Jetson Nano"])
def test_a_retired_board_decides_the_system(board: str, call: Call) -> None:
    report = json.loads(call("pick", board, "--json").out)
    assert report["host"]["system"]["value"] == "aarch64-linux"
    assert not report["choice"]  # their CPUs run none of the instruction sets
    refused = call("pick", board, "--system", "x86_64")
    assert (refused.code, "drop the option" in refused.err) == (2, True)


def test_conditions_are_never_left_out_of_an_answer(call: Call, tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("GTX 1080, x86_64\n")
    answer = call("pick", "--from", str(report))
    assert "provided that" in answer.out
    assert "series 580" in answer.out


@pytest.mark.parametrize(
    "machine",
    [
        (),
        ZEN4,
        ("--cpu", "zen4", "--gpu", "H100"),
        ("--cpu", "zen4", "--gpu", "2x V100 + RTX 5090 + RX 7900 XTX", "--driver", "580.95.05"),
        ("--cpu", "zen3", "--gpu", "T4 + A100 + H100", "--driver", "570.124.06"),
        ("--cpu", "zen4", "--gpu", "MI300X", "--org", "acme"),
        ("--cpu", "haswell", "--gpu", "Tesla K80", "--driver", "470.82"),
        ("--gpu", "Jetson AGX Orin"),
        ("-p", "real", *ZEN4),
    ],
)
def test_an_answer_has_twelve_lines_and_begins_with_the_machine(
    machine: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    report = json.loads(call("pick", *machine, "--json").out)
    lines = call("pick", *machine).out.splitlines()
    assert len(lines) <= 12
    assert lines[0] == report["machine"]
    assert lines[-1] == report["candidates"] or len(lines) > 10
    for row in report["create"] or report["choice"]:
        assert any(row["name"] in line for line in lines)
    assert not any(line.endswith("&&") and following[:3] != "   " for line, following in pairwise(lines))
    # The wheel comes first, maybe after the one for a newer driver.
    pip = next(at for at, line in enumerate(lines) if line.endswith(report["wheels"][0]["pip"]))
    assert pip in (2, 3)
    assert len(call("pick", *machine, "--explain").out.splitlines()) > len(lines)


def test_several_builds_have_one_command_and_it_runs(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ["PATH"]
    with_tools(monkeypatch, "nix-build")
    machine = ("--cpu", "zen4", "--gpu", "8x H100 + L4", "--driver", "580")
    out = call("pick", *machine).out
    names = call("pick", *machine, "--names").out.split()
    assert [name.split("-")[3] for name in names] == ["sm89", "sm90"]
    init, apply, build = (
        (" ".join(out.split()).partition("  build ")[0]).split(" build torchsmith ")[-1].split(" && ")
    )
    assert init == f"init mine --cell {names[0]} --cell {names[1]}"
    assert apply == "torchsmith apply -w mine"
    assert build.startswith(f"torchsmith build -w mine {names[0]} {names[1]}")
    assert "one for all GPUs" in out
    monkeypatch.setenv("PATH", path)
    call(*init.split())
    assert call("list", "-w", "mine", "--names", "pytorch").out.split() == names
    amd = call("pick", "--cpu", "zen4", "--gpu", "L4 + MI300X", "--driver", "580").out
    assert "one for all GPUs" not in amd


def test_a_newer_wheel_is_one_that_a_newer_driver_runs(call: Call) -> None:
    report = json.loads(call("pick", *ZEN4, "--json").out)
    [other] = [wheel["other"] for wheel in report["wheels"]]
    assert (other["torch"], other["cuda"], other["driver"]) == (NEWEST, "13.0", "580")
    newest = json.loads(call("pick", *ZEN4, "--driver", "595.58.03", "--json").out)
    assert [wheel["other"] for wheel in newest["wheels"]] == [None]


def test_a_driver_that_is_unknown_or_old_gets_the_wheel_for_a_newer_one_too(call: Call) -> None:
    machine = ("pick", "--cpu", "zen4", "--gpu", "RTX 4090")
    pip = f"pip install torch=={NEWEST} --index-url https://download.pytorch.org/whl/cu130"
    for driver in ((), ("--driver", "550")):
        assert f"  driver 580 or newer:  {pip}\n" in call(*machine, *driver).out


def test_a_torch_beyond_the_driver_says_so_and_names_the_newest_that_uses_the_gpu(call: Call) -> None:
    minor = NEWEST.rpartition(".")[0]
    report = json.loads(call("pick", *ZEN4, "--driver", "550", "--torch", minor, "--json").out)
    [wheel] = report["wheels"]
    assert wheel["torch"] == NEWEST
    assert (
        f"driver 550 is too old, every wheel of torch {minor} for it needs 580 or newer"
        in wheel["drawbacks"][0]
    )
    assert (wheel["other"]["torch"], wheel["other"]["cuda"], wheel["other"]["driver"]) == (
        "2.14.1",
        "12.6",
        "",
    )
    out = call("pick", *ZEN4, "--driver", "550", "--torch", minor).out.splitlines()
    assert "too old" in out[2]


def test_a_torch_that_no_nixpkgs_has_gets_a_command_that_runs_here(call: Call) -> None:
    words = ("pick", "H200", "--cpu", "zen4", "--torch", "2.14")
    assert "this finds it: torchsmith init mine --line 2.14\n" in call(*words).out
    call("init", "builds")
    assert "this finds it: torchsmith line add 2.14 --matrix -w builds\n" in call(*words, "-w", "builds").out


def test_the_cores_are_those_that_the_report_states(call: Call) -> None:
    text = "Architecture: x86_64\nCPU(s): {}\nModel name: AMD EPYC 9654 96-Core Processor\nFlags: {}\n"
    flags = "fpu sse2 ssse3 cx16 sse4_1 sse4_2 popcnt avx avx2 fma bmi1 bmi2 f16c movbe lm"
    for cores, of_build in ((8, 8), (24, 24), (64, 16), (224, 16)):
        Path("lscpu.txt").write_text(text.format(cores, flags))
        [row] = json.loads(call("pick", "--from", "lscpu.txt", "--gpu", "RTX 4090", "--json").out)["choice"]
        estimate = builtin_catalog().estimates["pytorch-gpu"]
        cost = row["cost"]
        assert (cost["cores"], cost["machine_cores"]) == (of_build, cores)
        assert cost["hours"] * of_build == pytest.approx(estimate.hours * estimate.cores)
        assert cost["memory_gb"] == estimate.memory_gb(of_build) < 60
    out = call("pick", "--from", "lscpu.txt", "--gpu", "RTX 4090", "--explain").out
    assert "  cost: about" in out
    assert "h on 16 of 224 cores" in out


@pytest.mark.parametrize("machine", [("Jetson Orin",), ("--gpu", "Jetson AGX Orin", "--driver", "540.4.0")])
def test_a_jetson_gets_its_makers_wheel_whatever_the_python_here(
    machine: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchsmith.host.detect.active_python", lambda: PythonVersion(3, 13))
    [wheel] = json.loads(call("pick", *machine, "--json").out)["wheels"]
    assert "jetson" in wheel["pip"]
    assert "Python 3.10" in wheel["needs"]
    assert wheel["drawbacks"] == []
    out = call("pick", *machine, "--python", "3.13").out
    assert re.search("Orin idle: no wheel of torch 2.8 or newer uses it.* for Python 3.13", out)


def test_names_and_pip_of_packages_that_cannot_be_had_say_why(call: Call) -> None:
    both = call("pick", "RTX 4090", "--package", "torchaudio", "--package", "xformers", "--names")
    assert (both.code, both.out) == (1, "")
    assert "torchaudio and xformers" in both.err
    pair = call("pick", *ZEN4, "--package", "torchvision", "--pip")
    versions = builtin_catalog().lines["2.14"].versions
    assert pair.out.startswith(
        f"pip install torch==2.14.1 torchvision=={versions['torchvision']} --index-url"
    )
    none = call("pick", *ZEN4, "--package", "xformers", "--pip")
    assert (none.code, none.out) == (1, "")  # $(...) would install torch alone
    assert "known to go with xformers" in none.err
    assert call("pick", *ZEN4, "--package", "torch", "--pip").out == call("pick", *ZEN4, "--pip").out


def test_words_that_were_meant_otherwise_get_the_command(call: Call) -> None:
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("NVIDIA GeForce RTX 4090\n")
    assert "write --from b.txt" in call("pick", "--from", "a.txt", "b.txt").err
    for arch in ("sm89", "gfx942"):  # a word for the machine, as a product is
        assert call("pick", arch).out == call("pick", "--gpu", arch).out
    for spelling in ("sm_89", "compute_89", "sm_61"):  # as torch and nvcc print them
        by_word = json.loads(call("pick", "--cpu", "zen4", spelling, "--json").out)
        assert [gpu["sm"]["value"] for gpu in by_word["host"]["gpus"]["value"]] == [f"sm{spelling[-2:]}"]
    assert "8.9 is sm89" in call("pick", "8.9").err
    assert call("pick", "p4d.24xlarge").out == call("pick", "--gpu", "p4d.24xlarge").out
    assert "torchsmith pick --gpu GPU --driver VERSION" in call("init", "mine", "--cell", CELL).err


def test_the_gain_of_a_build_is_in_the_users_words(call: Call) -> None:
    out = call("pick", "--cpu", "zen4", "--gpu", "RTX 4090", "--driver", "595.58.03").out
    assert "native code for your RTX 4090 (sm89); your CPU supports AVX-512" in out
    assert "all CPU code for avx512; GPU code for sm89 alone (the wheel: 1.1 GB installed)" in out
    assert f"PyTorch's own wheel: torch {NEWEST} for CUDA 13.2\n" in out
    older = call("pick", "--cpu", "zen4", "--gpu", "none", "--python", "3.9").out
    assert "torch 2.8.0 for the CPU\n  the last for Python 3.9; needs glibc 2.28; from release notes" in older


def test_a_driver_that_leaves_a_gpu_idle_is_to_be_updated_first(call: Call) -> None:
    for gpu, driver, needed, index in (
        ("RTX 5090", "550", "570", "cu128"),
        ("RTX 4090", "470", "525.60.13", "cu126"),
        ("RTX 3050", "470.82", "525.60.13", "cu126"),
        ("V100 + RTX 5090", "550", "570", "cu128"),
    ):
        machine = ("pick", "--cpu", "zen4", "--gpu", gpu, "--driver", driver)
        out = call(*machine).out
        update = f"driver {needed} or newer:  pip install torch=="
        assert update in out
        assert re.search(rf"{re.escape(update)}\S+ --index-url \S+/{index}\n", out)
        assert out.index(update) < out.index("own build:")
        json_wheel = json.loads(call(*machine, "--json").out)["wheels"][0]
        assert json_wheel["other"]["driver"] == needed
        assert bool(json_wheel["idle"]) is ("leaves " in out.partition("own build:")[0])
        if "+" in gpu:
            assert "no known wheel uses all of these GPUs with this driver" in out
        else:
            assert out.index(update) < out.index("  pip  ")
            assert update in call(*machine, "--pip").err


@pytest.mark.parametrize("board", ["Jetson Nano", "Jetson TX2", "sm53"])
def test_a_jetson_of_jetpack_4_gets_neither_a_wheel_nor_a_build(call: Call, board: str) -> None:
    result = call("pick", board)
    assert (result.code, "JetPack 4 (CUDA 10.2) is its last" in result.out) == (1, True)
    assert "is for glibc 2.27" in result.out
    assert "own build:" not in result.out
    assert "pip install" not in result.out


def test_an_answer_says_nothing_of_what_is_unknown_or_missing(call: Call) -> None:
    out = call("pick", "--cpu", "zen4", "--gpu", "GTX 1080", "--explain").out
    assert "CUDA 12.6 is nearer to driver 525.60.13's own" in " ".join(out.split())
    assert "but a build that can is possible" in call("pick", "RTX 4090", "--torch", "2.8").out
    assert "your CPU supports ARMv8.4-A (Apple M1)" in call("pick", "M1").out
    assert call("pick", "").error == "usage"
    no_wheel = call("pick", "RTX 4090", "--package", "flash-attn", "--pip")
    assert (no_wheel.code, "known to go with flash-attn\n" in no_wheel.err) == (1, True)
    other = call("pick", "A100", "--cpu", "zen4", "--package", "flash-attn", "--pip")
    assert "torchsmith pick shows a build that does" in other.err


@pytest.mark.parametrize(("option", "program"), [("--pip", "pip"), ("--uv", "uv pip")])
def test_the_command_of_the_wheel_alone_can_be_run(option: str, program: str, call: Call) -> None:
    result = call("pick", option, "--cpu", "zen4", "--gpu", "A100", "--driver", "535.104.05")
    place = "--index-url https://download.pytorch.org/whl/cu126"
    assert (result.code, result.out) == (0, f"{program} install torch==2.14.1 {place}\n")
    none = call("pick", option, "--cpu", "zen4", "--gpu", "none", "--python", "3.99")
    assert (none.code, none.out) == (1, "")
    assert call("pick", option, "--json").code == 2


def test_a_wanted_torch_and_python_narrow_builds_and_wheels(call: Call) -> None:
    cpu = ("--cpu", "zen4", "--gpu", "none", "--json")
    report = json.loads(call("pick", "--python", "3.12", "--torch", "2.9", *cpu).out)
    names = [row["name"] for row in (*report["choice"], *report["create"])]
    assert names
    assert all("python312" in name for name in names)
    assert [wheel["torch"] for wheel in report["wheels"]] == ["2.9.1"]
    assert {row["torch"] for row in (*report["choice"], *report["create"])} == {"2.9.1"}
    listed = call("list", "--names", "-p", "every", "python:3.13", "torch:2.8").out.split()
    assert listed
    assert all(name.startswith(("pytorch28-", "torchvision023-", "torchaudio28-")) for name in listed)
    assert call("list", "torch:1.0").code == 2


def test_the_python_of_the_active_environment_counts(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torchsmith.host.detect.active_python", active_python)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    # There is no wheel for 3.7.
    for version, torch in {"3.10": "2.14.1", "3.9": "2.8.0", "3.7": NEWEST}.items():
        program = tmp_path / f"python{version}"
        program.touch(0o755)
        (tmp_path / "python3").unlink(missing_ok=True)
        (tmp_path / "python3").symlink_to(program)
        assert call("pick", "--pip", "--gpu", "none").out.split()[2] == f"torch=={torch}"
        elsewhere = json.loads(call("pick", "--cpu", "zen4", "--gpu", "none", "--json").out)
        assert "python" not in elsewhere["host"], "that is the Python of another machine"


def test_a_windows_machine_gets_its_wheel_and_a_word_on_wsl(call: Call) -> None:
    text = "OS: Microsoft Windows 11 Pro\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090\n"
    Path("env.txt").write_text(f"{text}Nvidia driver version: 581.80\n")
    result = call("pick", "--from", "env.txt")
    assert result.code == 0
    assert "WSL2" in result.out
    assert "provided that" not in result.out  # collect_env's line is a fact
    older = call(
        "pick", "--system", "windows", "--gpu", "RTX 4090"
    ).out  # Windows numbers drivers its own way
    assert "provided that the driver is 528.33 or newer" in older
    assert f"torch=={NEWEST} --index-url https://download.pytorch.org/whl/cu130\n" in result.out


def test_without_a_variant_for_a_gpu_the_fix_and_its_build_are_named_and_none_for_the_cpu(call: Call) -> None:
    result = call("pick", "--profile", "real", *ZEN4)
    assert result.code == 0  # the wheel uses it
    told = json.loads(call("pick", "--profile", "real", *ZEN4, "--json").out)
    assert told["unserved"] == ["sm89"]
    assert "580" in result.out
    assert told["create"][0]["name"] in result.out
    assert told["choice"][0]["name"] not in result.out
    assert told["choice"][0]["name"] in call("pick", "--profile", "real", *ZEN4, "--explain").out


def test_no_command_is_printed_for_a_cell_that_no_nixpkgs_can_build(call: Call) -> None:
    v100 = ("--profile", "real", "--cpu", "zen4", "--gpu", "V100", "--driver", "550")
    result = call("pick", *v100)
    assert result.code == 0
    assert "cuda12_4" not in result.out
    assert "cuda12_4" not in json.dumps(json.loads(call("pick", "--json", *v100).out)["create"])


def test_what_a_workspace_is_told_to_add_can_be_generated(call: Call) -> None:
    call("init", ".", "--profile", "seed")
    file = Path("torchsmith.toml")
    file.write_text(file.read_text().replace("format = 1", 'format = 1\nline = "2.10"', 1))
    v100 = ("pick", "--cpu", "zen4", "--gpu", "V100", "--driver", "550")
    assert "to include" in call(*v100).out
    name = json.loads(call(*v100, "--json").out)["create"][0]["name"]
    file.write_text(file.read_text().replace("include = []", f'include = ["{name}"]'))
    assert call("apply").code == 0
    assert list(Path().rglob(f"{name}.nix"))


def test_an_lscpu_alone_gets_no_build_until_it_is_said_that_there_is_no_gpu(call: Call) -> None:
    options = reports("lscpu-german")[:2]
    result = call("pick", "--profile", "wide", *options)
    assert result.code == 1
    assert "for the CPU only: --gpu none" in result.out
    assert call("pick", "--profile", "wide", *options, "--gpu", "none").code == 0
    assert not json.loads(call("pick", "--json", *options).out)["gpus_known"]


def test_a_workspace_is_told_which_line_to_add(call: Call) -> None:
    call("init", ".", "--profile", "seed")
    out = call("pick", *ZEN4).out
    assert f'"{CELL}"' in out


def test_names_alone_are_data(call: Call) -> None:
    result = call("pick", "--profile", "wide", "--names", *ZEN4)
    assert result.out == "pytorch-python313-cuda12_8-sm89-avx512\n"
    assert result.err == ""


def test_explain_says_of_every_other_build_that_runs_why_not(call: Call) -> None:
    words = ("pick", "--profile", "real", "--cpu", "zen4", "--gpu", "L4", "--driver", "580")
    out = call(*words, "--explain").out
    report = json.loads(call(*words, "--json").out)
    _, _, others = out.partition("not chosen")
    hidden = sum(map(int, re.findall(r"and (\d+) more", others)))
    named = set(re.findall(r"pytorch-python\S+?(?=,|\s)", others))
    assert hidden + len(named) == len(report["not_chosen"]) == 15
    assert re.search("avx512 .* avx2 .*general", out)


def test_selectors_narrow_the_candidates(call: Call) -> None:
    result = call("pick", "--profile", "wide", "--names", "package:torchvision", "12.8", *ZEN4)
    assert result.out == "torchvision-python313-cuda12_8-sm89-avx512\n"


def test_json_holds_the_host_the_choice_and_the_others(call: Call) -> None:
    data = json.loads(call("pick", "--json", "--profile", "wide", *ZEN4).out)
    assert [one["name"] for one in data["choice"]] == ["pytorch-python313-cuda12_8-sm89-avx512"]
    assert data["host"]["driver"]["value"] == "570.124.06"
    others = {other["name"]: other["why"] for other in data["not_chosen"]}
    assert "avx512 comes before avx2" in others["pytorch-python313-cuda12_8-sm89-avx2"]
    assert all(why.startswith("runs, but ") for why in others.values())


def test_a_host_can_be_carried_to_another_machine(call: Call) -> None:
    options = reports("sapphirerapids-h100")
    Path("host.json").write_text(call("pick", "--facts", "--json", *options).out)
    carried = call("pick", "--names", "--workload", "training", "--from", "host.json")
    assert carried.out == "pytorch-python313-cuda13_0-sm90-avx512bf16\n"
    assert carried.out == call("pick", "--names", "--workload", "training", *options).out


def test_single_facts_can_be_overridden(call: Call) -> None:
    options = reports("emeraldrapids-h200")
    result = call("pick", "--profile", "wide", *options, "--driver", "570.26")
    assert "cuda12_8-sm90-avx512" in result.out
    assert "driver" in result.err


def test_a_mac_gets_its_own_build_and_wheel(call: Call) -> None:
    result = call("pick", *reports("macbook-m3"), "--json")
    report = json.loads(result.out)
    assert result.code == 0
    assert [row["name"] for row in report["choice"]] == ["pytorch-python313-darwin-mps"]
    assert [(row["gpu"], row["pip"]) for row in report["wheels"]] == [("MPS", f"pip install torch=={NEWEST}")]


def test_host_shows_facts_with_their_sources_and_notes_apart(call: Call) -> None:
    result = call("pick", "--facts", *reports("gb10-dgx-spark"))
    assert result.code == 0
    assert "GB10" in result.out
    assert "sm121" in result.out
    assert "unknown" not in result.out
    Path("gpu.txt").write_text("GPU 0: NVIDIA GeForce RTX 9990 (UUID: GPU-1)\n")
    assert "RTX 9990, architecture unknown" in call("pick", "--facts", "--from", "gpu.txt").out
    assert "avx512" in call("pick", "--facts", *reports("vm-hidden-avx512")).err


def test_the_answer_for_a_cpu_alone_says_how_to_name_its_gpu(call: Call) -> None:
    assert "--gpu" in call("pick", "--cpu", "zen4").out
    assert "--gpu" not in call("pick", "--cpu", "zen4", "--gpu", "none").out


def test_facts_of_a_product_are_asked_by_its_name(call: Call) -> None:
    """As `pick GH200`: the product is the machine's GPU, and not a selector that facts would ignore."""
    facts = json.loads(call("pick", "--facts", "GH200", "--json").out)
    assert [gpu["sm"]["value"] for gpu in facts["gpus"]["value"]] == ["sm90"]
    assert call("pick", "--facts", "GH2000").code == 2
    assert json.loads(call("pick", "--facts", "sm90", "--json").out)["gpus"] is not None


def test_this_machine_is_read(call: Call) -> None:
    result = call("pick", "--facts", "--json")
    assert result.code == 0
    assert json.loads(result.out)["system"]["source"] == "uname"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("pick", "--from", "nowhere"), "cannot-read"),
        (("pick", "--cpu", "zen44"), "not-known"),
        (("pick", "--gpu", "RTX 1"), "not-known"),
        (("pick", "--workload", "gaming"), "not-known"),
        (("pick", "--driver", "x.y"), "invalid"),
        (("cover", "nowhere.csv"), "not-found"),
    ],
)
def test_a_wrong_request_is_answered_in_words(args: tuple[str, ...], error: str, call: Call) -> None:
    result = call(*args)
    assert (result.code, result.error) == (2, error)
    assert args[-1] in result.err


def test_cover_writes_a_matrix_that_is_read_back(call: Call) -> None:
    result = call("cover", "sample", "--profile", "wide", "--write", "chosen.toml")
    assert result.code == 0
    names = call("list", "--names", "--workspace", "chosen.toml", "pytorch").out.splitlines()
    data = json.loads(call("cover", "sample", "--profile", "wide", "--json").out)
    assert names == data["plan"]["variants"]
    assert data["plan"]["proof"]["optimal"]
    assert data["plan"]["cost"]["machine_cores"] == usable_cores()
    again = call("cover", "sample", "--profile", "wide", "--write", "chosen.toml")
    assert again.code == 2
    assert "chosen.toml" in again.err


def test_what_comes_near_is_for_the_same_gpu_where_a_build_for_it_can_be_made(call: Call) -> None:
    def near(gpu: str, driver: str) -> list[str]:
        words = ("pick", "-p", "real", "--cpu", "zen4", "--gpu", gpu, "--driver", driver, "--json")
        report = json.loads(call(*words).out)
        assert report["create"]
        return [row["name"] for row in report["nearest"]]

    assert near("GTX 1060", "535.104") == []
    assert near("V100", "550") == []
    assert all("-sm120-" in name for name in near("RTX 5090", "570"))
    assert near("RTX 5090", "570")


def test_machines_that_nothing_serves_and_rows_that_cannot_be_read_are_exit_1(call: Call) -> None:
    Path("fleet.csv").write_text("name,cpu,gpu,driver\nold,zen,T4,470\nok,zen3,A100,580\nbad,zen99,L4,580\n")
    result = call("cover", "fleet.csv", "--profile", "wide")
    assert result.code == 1
    assert "fleet.csv:4: " in result.err
    assert "'zen99'" in result.err
    assert "525.60.13" in result.out
    assert result.out.startswith("2 machines in 2 entries, of 2 kinds\n")


def test_cover_and_pick_name_the_same_cell_to_make_and_the_command(call: Call) -> None:
    Path("fleet.csv").write_text("name,cpu,gpu,driver\nold,zen3,GTX 1060,550\n")
    fleet = call("cover", "fleet.csv", "-p", "real", "--json")
    covered = json.loads(fleet.out)
    machine = ("--cpu", "zen3", "--gpu", "GTX 1060", "--driver", "550")
    picked = json.loads(call("pick", "-p", "real", *machine, "--json").out)
    [row], [missing] = covered["served"], picked["create"]
    assert (fleet.code, row["variant"]) == (1, None)
    assert row["create"] == missing["name"]
    assert covered["create"] == missing["commands"]
    assert missing["name"] in call("cover", "fleet.csv").out


@pytest.mark.parametrize("gpu", ["none", "H100", "MI300X", "GTX 1060"])
def test_an_answer_says_what_its_build_costs(call: Call, gpu: str) -> None:
    report = json.loads(call("pick", "--cpu", "zen4", "--gpu", gpu, "--json").out)
    for row in [*report["choice"], *report["create"]]:
        estimate = builtin_catalog().estimates["pytorch-cpu" if "-cpu-" in row["name"] else "pytorch-gpu"]
        cost = row["cost"]
        if gpu == "MI300X" and "-gfx" in row["name"]:  # CUDA's figures are not ROCm's
            assert (cost["hours"], cost["not_estimated"]) == (0, [row["name"]])
            continue
        cores = cost["cores"]
        assert 1 <= cores <= cost["machine_cores"] == usable_cores()
        assert cost["hours"] * cores == pytest.approx(estimate.hours * estimate.cores)
        assert (cost["memory_gb"], cost["build_gb"]) == (estimate.memory_gb(cores), estimate.build_gb)


def test_the_cost_of_a_companion_counts_its_torch_and_names_what_is_not_estimated(call: Call) -> None:
    estimates = builtin_catalog().estimates
    words = ("pick", "--cpu", "zen4", "--gpu", "none", "--json", "--package")
    [row] = json.loads(call(*words, "torchvision").out)["choice"]
    both = estimates["pytorch-cpu"].hours + estimates["torchvision-cpu"].hours
    assert row["cost"]["hours"] * row["cost"]["cores"] == pytest.approx(both * 16)
    gpu = ("pick", "--cpu", "zen4", "--gpu", "H100", "--package", "vllm", "--json")
    [row] = json.loads(call(*gpu).out)["create"]
    assert any(name.startswith("vllm") for name in row["cost"]["not_estimated"])
    assert row["cost"]["hours"] * row["cost"]["cores"] >= estimates["pytorch-gpu"].hours * 16


def test_a_gpu_that_cuda_dropped_is_not_compared_with_others(call: Call) -> None:
    Path("fleet.csv").write_text("name,cpu,gpu,driver\nold,haswell,Tesla K80,470\n")
    [served] = json.loads(call("cover", "fleet.csv", "--json").out)["served"]
    picked = json.loads(call("pick", "--cpu", "haswell", "--gpu", "Tesla K80", "--json").out)
    assert served["why"] in picked["missing"][0]


def test_a_gpu_beside_this_machines_cpu_is_said_to_be_so(call: Call) -> None:
    own = json.loads(call("pick", "--json").out)["machine"]
    mixed = json.loads(call("pick", "--gpu", "RTX 4090", "--json").out)["machine"]
    other = json.loads(call("pick", "--gpu", "RTX 4090", "--cpu", "zen4", "--json").out)["machine"]
    assert [("--cpu" in text) for text in (own, mixed, other)] == [False, True, False]


@pytest.mark.parametrize(("gpu", "sm"), [("RTX 4090", "sm89"), ("GTX 1060", "sm61")])
def test_an_old_driver_is_told_once_with_the_build_for_the_gpu(call: Call, gpu: str, sm: str) -> None:
    report = json.loads(call("pick", "--cpu", "zen4", "--gpu", gpu, "--driver", "470", "--json").out)
    [row] = report["nearest"]
    assert f"-{sm}-" in row["name"]
    assert row["why"].count("update the driver") == 1
    Path("fleet.csv").write_text(f"name,cpu,gpu,driver\nold,zen4,{gpu},470\n")
    [served] = json.loads(call("cover", "fleet.csv", "--json").out)["served"]
    assert f"-{sm}-" in served["why"]


def test_the_build_that_uses_an_amd_gpu_comes_before_the_one_that_leaves_it_idle(call: Call) -> None:
    out = call("pick", "-p", "real", "--cpu", "zen4", "--gpu", "MI300X", "--explain").out
    assert out.index("-gfx942-") < out.index("-cpu-")


@pytest.mark.parametrize("system", ["plan9", "riscv64"])
def test_a_system_that_nothing_is_built_for_is_named_with_those_that_are(call: Call, system: str) -> None:
    result = call("pick", "--system", system)
    assert (result.code, "x86_64 or aarch64" in result.err) == (2, True)


def test_an_empty_gpu_is_an_error(call: Call) -> None:
    result = call("pick", "--gpu", "")
    assert (result.code, "--gpu is empty" in result.err) == (2, True)


def test_the_curve_shows_what_each_further_variant_buys(call: Call) -> None:
    data = json.loads(call("cover", "sample", "--profile", "wide", "--json", "--curve", "30").out)
    served = [plan["at_their_best"] + plan["slower"] for plan in data["curve"]]
    assert served == sorted(served)
    assert data["curve"][-1]["slower"] == 0


@pytest.mark.parametrize("words", [["show", "sm89"], ["show", "RTX 4090"], ["show", "g6.xlarge"]])
def test_a_gpu_is_shown_like_a_cell(call: Call, words: list[str]) -> None:
    data = json.loads(call(*words, "--json").out)
    assert data["sm"] == "sm89"
    assert [row["torch"] for row in data["releases"] if row["release"] == "13.0"] > [""]
    assert call("show", "Tesla K80").code == 1


def test_two_facts_that_cannot_both_be_true_are_an_error(call: Call) -> None:
    result = call("pick", "--gpu", "GH200", "--system", "x86_64")
    assert result.code == 2
    assert "aarch64-linux" in result.err


def test_what_was_not_used_takes_three_lines_unless_all_of_it_is_asked_for(
    call: Call, tmp_path: Path
) -> None:
    keys = ("gpu", "gpu name", "gpu model", "gpu type", "driver", "nvidia driver")
    (tmp_path / "report.txt").write_text("".join(f"{key}: n/a\n" for key in keys))
    words = ("pick", "--from", str(tmp_path / "report.txt"))
    assert call(*words).err.count("note:") == 3
    assert call(*words, "--explain").err.count("note:") >= 6


def test_parts_of_a_name_select_cells(call: Call) -> None:
    for word, expected in (("sm90-avx512", "sm90-avx512"), ("cpu-avx2", "cpu-avx2")):
        names = call("list", "--names", word).out.split()
        assert names
        assert all(name.endswith(expected) for name in names)


@pytest.mark.parametrize(("gpu", "sm"), [("GTX 1080", "sm61"), ("P100", "sm60"), ("V100", "sm70")])
def test_without_a_workspace_an_older_card_gets_the_torch_for_it(call: Call, gpu: str, sm: str) -> None:
    machine = ("pick", "--cpu", "haswell", "--gpu", gpu, "--driver", "570.124.06")
    name = f"pytorch28-python313-cuda12_8-{sm}-avx2"
    named = call(*machine, "--names")
    assert (named.code, named.out.split()) == (0, [name])
    report = json.loads(call(*machine, "--json").out)
    [chosen] = report["choice"]
    assert (report["served"], report["create"], chosen["name"]) == (True, [], name)
    assert "2.9.1" in json.loads(call("show", name, "--json").out)["newer"]
    Path("fleet.csv").write_text(f"name,cpu,gpu,driver\nold,haswell,{gpu},570.124.06\n")
    covered = call("cover", "fleet.csv", "--json")
    assert (covered.code, json.loads(covered.out)["plan"]["variants"]) == (0, [name])
    call("init", ".")
    inside = json.loads(call(*machine, "--json").out)
    assert inside["unserved"] == [sm]
    assert [row["name"] for row in inside["create"]] == [name]


def test_the_newest_cuda_that_the_driver_supports_fully_is_chosen(call: Call) -> None:
    for driver, cuda in (("560.28", "12_6"), ("570.124.06", "12_8"), ("580.65.06", "13_0")):
        machine = ("--cpu", "zen3", "--gpu", "RTX 3090", "--driver", driver)
        assert call("pick", *machine, "--names").out == f"pytorch-python313-cuda{cuda}-sm86-avx2\n"


def test_a_release_that_needs_hashes_is_not_called_impossible(call: Call) -> None:
    machine = ("--cpu", "zen3", "--gpu", "RTX 3090", "--driver", "580.65.06")
    [chosen] = json.loads(call("pick", *machine, "--json").out)["choice"]
    parts = json.loads(call("show", chosen["name"], "--json").out)["newer"].split("; ")
    assert [part.split(":")[0] for part in parts] == ["2.11.0 and 2.12.1", "2.13.0 to 2.15.0"]
    assert call("show", "pytorch212-python313-cuda13_0-sm86-avx2").code == 0
    assert call("show", "pytorch213-python313-cuda13_0-sm86-avx2").code == 1


@pytest.mark.parametrize(
    ("features", "system"), [("avx avx2 fma", "x86_64-linux"), ("asimd asimddp atomics", "aarch64-linux")]
)
def test_features_of_another_kind_of_cpu_describe_another_machine(
    call: Call, features: str, system: str
) -> None:
    report = json.loads(call("pick", "--features", features, "--gpu", "A100", "--json").out)
    assert report["host"]["system"]["value"] == system
    assert not any("not used" in note["text"] for note in report["host"]["notes"])


def test_gpus_of_amd_are_counted_and_shown_as_those_of_nvidia_are(call: Call) -> None:
    machine = ("--cpu", "zen4", "--gpu", "2x MI300X + L4")
    first, *_ = call("pick", *machine).out.splitlines()
    assert "2 x MI300X" in first
    rows = [
        line.split()[1]
        for line in call("pick", "--facts", *machine).out.splitlines()
        if line.startswith("GPU ")
    ]
    assert rows == ["L4,", "MI300X,", "MI300X,"]


def test_an_amd_gpu_that_nothing_is_built_for_gets_the_reason_and_the_nearest_target(call: Call) -> None:
    report = json.loads(call("pick", "--cpu", "zen3", "--gpu", "RX 6600", "--json").out)
    [remark] = report["notes"]
    assert "gfx1032" in remark
    assert remark.endswith("gfx1030 (Radeon RX 6800 and 6900 series), whose code AMD does not support there")
    assert "gfx1030" in json.loads(call("show", "RX 6600", "--json").out)["ended"]
    Path("fleet.csv").write_text("name,cpu,gpu\ndesk,zen3,RX 6600\n")
    [row] = json.loads(call("cover", "fleet.csv", "--json").out)["served"]
    assert "gfx1030" in row["why"]


@pytest.mark.parametrize("cpu", ["M3 Max", "m3", "Apple M3 Max"])
def test_a_mac_is_known_by_the_name_of_its_chip(call: Call, cpu: str) -> None:
    assert call("pick", "--cpu", cpu, "--names").out == "pytorch-python313-darwin-mps\n"


def test_a_gpu_that_is_stated_replaces_only_one_that_a_report_names(call: Call) -> None:
    Path("cpu.txt").write_text("Architecture: x86_64\nCPU: Ryzen 7950X\n")
    assert "replaced" not in call("pick", "--from", "cpu.txt", "--gpu", "none").err
    Path("gpu.txt").write_text("GPU 0: NVIDIA H100 PCIe\n")
    said = call("pick", "--from", "gpu.txt", "--gpu", "none").err
    assert "the GPUs are replaced by what the command line says" in said


def test_an_inventory_is_told_of_columns_and_not_of_options(call: Call) -> None:
    Path("fleet.csv").write_text("name,cpu,gpu\ngood,zen3,none\nbad,zen99,none\nworse,zen3,Gaudi 3\n")
    not_read = json.loads(call("cover", "fleet.csv", "--json").out)["not_read"]
    assert len(not_read) == 2
    assert not any("--" in row["why"] for row in not_read)
    assert "features" in not_read[0]["why"]
    assert "the best build " in call("cover", "sample", "--best", "1").out


def test_cover_without_its_solver_says_what_to_install_before_it_reads(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    monkeypatch.setattr("torchsmith.verbs.cover.find_spec", lambda name: None)
    result = call("cover", "nowhere.csv")
    assert (result.code, result.out) == (3, "")
    assert "pip install highspy" in result.err
    assert call("pick", "--gpu", "sm90", "--names").out


def test_a_product_is_a_selector_of_list_show_and_pick(call: Call) -> None:
    names = call("list", "RTX 4090", "--names").out.split()
    assert names
    assert all("-sm89-" in name for name in names)
    grace = call("list", "GH200", "--names").out.split()
    assert {name.rpartition("-")[2] for name in grace} == {"armv8_2", "armv9"}
    assert not set(grace) & set(call("list", "sm90", "!GH200", "--names").out.split())
    assert json.loads(call("show", "GH200", "--json").out)["systems"] == ["aarch64-linux"]
    assert call("pick", "GH200", "--names").out == call("pick", "--gpu", "GH200", "--names").out


def test_the_answer_says_whose_builds_are_candidates_and_one_that_is_verified_comes_first(call: Call) -> None:
    assert "own build: " in call("pick", *ZEN4).out
    assert "build of profile real: " in call("pick", "-p", "real", "--cpu", "zen4", "H100").out
    assert "all possible builds" in call("pick", "--cpu", "zen4", "--gpu", "none").out.splitlines()[-1]
    call("init", ".", "--cell", CELL)
    assert call("pick", *ZEN4).out.splitlines()[1].startswith("PyTorch's own wheel")
    assert call("apply").code == 0
    recipe = Path("build-pytorch/.flox/pkgs", f"{CELL}.nix")
    with closing(open_record(Path())) as record:
        output, drv = "/nix/store/x-torch", "/nix/store/x.drv"
        source = source_hash(recipe)
        record.note_built(Built(name=CELL, derivation=drv, source=source, outputs=(output,)))
        assert call("pick", *ZEN4).out.splitlines()[1].startswith("PyTorch's own wheel")
        record.note_verdict(VerificationRow(output=output, name=CELL, ok=True, derivation=drv))
    assert call("pick", *ZEN4).out.splitlines()[1].startswith(f"build of torchsmith.toml: {CELL} ")
    recipe.write_text(recipe.read_text() + "# a word\n")
    assert call("pick", *ZEN4).out.splitlines()[1].startswith("PyTorch's own wheel")


def test_a_wheel_comes_before_a_build_of_a_workspace_and_a_dry_run_is_named_once_it_is_written(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("init", "mine", "--cell", "pytorch-python313-cpu-avx2")
    idle = call("pick", "GTX 1080", "--cpu", "zen4", "-w", "mine").out.splitlines()
    assert idle[1].startswith("PyTorch's own wheel: torch 2.14.1 for CUDA ")
    assert not any("leaves GTX 1080 idle" in line for line in idle)
    machine = ("pick", "--gpu", "none", "--cpu", "zen4")
    # A dry run counts the dependencies of recipes: those that are written.
    path = os.environ["PATH"]
    with_tools(monkeypatch, "nix-build")
    assert "--dry-run" not in call(*machine).out + call(*machine, "-w", "mine").out
    with monkeypatch.context() as tools:
        tools.setenv("PATH", path)
        assert call("apply", "-w", "mine").code == 0
    line = " torchsmith build -w mine pytorch-python313-cpu-avx2 --dry-run\n"
    assert line in call(*machine, "-w", "mine", "--explain").out


def test_cover_says_which_machines_get_an_older_torch_and_what_has_no_estimate(call: Call) -> None:
    rows = "hostname,gpu_model,model name\na,V100,zen3\nb,L4,zen3\nc,Radeon RX 7900 XTX,zen3\n"
    Path("f.csv").write_text(rows)
    data = json.loads(call("cover", "f.csv", "--json").out)
    assert {row["kinds"][0]: bool(row["older"]) for row in data["served"]} == {
        "a": True,
        "b": False,
        "c": True,
    }
    missing = data["plan"]["cost"]["not_estimated"]
    assert missing
    assert all("-gfx1100-" in name for name in missing)
    Path("amd.csv").write_text("gpu,cpu\nRadeon RX 7900 XTX,zen3\n")
    assert "one after the other: not estimated" in call("cover", "amd.csv").out


def test_a_cpu_without_the_instruction_set_that_is_stated_is_a_conflict(call: Call) -> None:
    assert call("pick", "--cpu", "zen3", "--isa", "avx512").error == "conflict"
    assert call("pick", "--cpu", "zen3", "--isa", "avx2", "--gpu", "none").code == 0


@pytest.mark.parametrize(
    "text",
    [
        "iMac with Intel Core i9 2019, Radeon Pro 580X",
        "Mac mini 2018 with an Intel CPU",
        "MacBook Pro, Intel i7",
    ],
)
def test_a_mac_with_an_intel_cpu_gets_no_wheel_for_apple_silicon(
    text: str, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "mac.txt").write_text(f"{text}\n")
    [wheel] = json.loads(call("pick", "--from", str(tmp_path / "mac.txt"), "--json").out)["wheels"]
    assert wheel["torch"] == "2.2.2"


def test_tools_that_lack_here_are_not_named_for_another_machine(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "report.txt"
    report.write_text("GPU 0: NVIDIA L4\nArchitecture: x86_64\n")
    machines = (("--gpu", "none"), ("--gpu", "none", "--cpu", "zen4"), ("--from", str(report)))
    answers = [json.loads(call("pick", *machine, "--json").out)["no_tools"] for machine in machines]
    assert answers == [True, False, False]
