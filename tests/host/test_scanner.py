"""One pass over any text: what a tool states is a fact, and what a person writes is a condition."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.host.machines import stated
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Invalid, NotKnown
from torchsmith.host.facts import HostFacts
from torchsmith.host.gpu_mentions import find_gpus
from torchsmith.host.pick import Pick, missing_commands, pick
from torchsmith.host.read_report import machine_of, read_report
from torchsmith.host.resolve import capability_of, known_isas, resolve
from torchsmith.host.stated import gather
from torchsmith.host.wheels import wheels_for
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = open_workspace(None, "every").cells_of(CATALOG.torch)
LSPCI_AMD = "c4:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] "
# Machines in the layouts that people use: system, architectures, driver, target of another maker's GPU.
LAYOUTS = {
    "OOM on an RTX 3090, Ubuntu\nNVIDIA-SMI 560.35.03   Driver Version: 560.35.03": "- sm86 560.35.03 -",
    "I own one rtx3090， with 24GB": "- sm86 - -",
    "RTX 3060 is too small; we used two 3090 or one A40": "- sm86 - -",
    "an ubuntu PC with nvidia 3060 GPU 8 GB": "- sm86 - -",
    "在RTX 3090单卡上": "- sm86 - -",
    "| 0 | Device Name: Intel(R) Arc(TM) Pro B60 Graphics |": "- - - other",
    "v100 in an old IBM power 9 box; if(ARCH STREQUAL aarch64)": "powerpc64le-linux sm70 - -",
    "- **Hardware:** IBM Power9\n- **Architecture:** ppc64le": "powerpc64le-linux - - -",
    "- **OS:** nt\n- **Name:** cuda:0 NVIDIA GeForce RTX 4090 D : cudaMallocAsync": "x86_64-windows sm89 - -",
    "- **OS:** posix\n- **Name:** cuda:0 NVIDIA GeForce RTX 4090 : native": "- sm89 - -",
    "OS: Microsoft Windows NT 10.0\nNVIDIA Driver Version: 565.90\n 0: NVIDIA GeForce RTX 2080 Ti [75]": (
        "x86_64-windows sm75 565.90 -"
    ),
    "tested on a DGX Spark (DGX OS, driver 580.159.03)": "aarch64-linux sm121 - -",
    "Running on an Asus Ascent GX10": "aarch64-linux sm121 - -",
    "cloud.google.com/gke-accelerator: nvidia-l4\ncloud.google.com/gke-spot: true": "- sm89 - -",
    "kubectl: cloud.google.com/gke-accelerator=nvidia-tesla-t4": "- sm75 - -",
    "Jetson AGX Orin (JetPack 5.1.2)\n* **L4T Release:** R35.4.1": "aarch64-linux sm87 35 -",
    "a version for orin on JP5.1.1 - r35.3.1": "aarch64-linux sm87 35 -",
    "Card name: NVIDIA GeForce RTX 5070\nDriver Version: 32.0.15.8180\nOperating System: Windows 11": (
        "x86_64-windows sm120 581.80 -"
    ),
    "  Device-1: NVIDIA GA107 [GeForce RTX 3050 6GB] driver: nvidia v: 550.90.07": "- sm86 550.90.07 -",
    "capability = (10, 3)\nname = AMD Radeon RX 6600 XT\nAMD Ryzen 9 3950X": "x86_64-linux - - gfx1032",
    "PyTorch version: 2.0.1+rocm5.4.2\nArchitecture: x86_64": "x86_64-linux - - other",
    "Name:    amdgcn-amd-amdhsa--gfx1030": "- - - gfx1030",
    "gpu: AMD Radeon RX 9070/9070 XT/9070 GRE [Discrete]": "- - - gfx1201",
    "I am using a Sapphire 5700XT\n Kernel: x86_64 Linux 5.8.4": "x86_64-linux - - gfx1010",
    "mac m1, mps support": "aarch64-darwin - - mps",
    "wheels for linux are offered to my MacBook with M2 (macOS-14.2-arm64)": "aarch64-darwin - - mps",
    "NVRM: The NVIDIA GeForce GTX 1050 GPU installed\nNVRM: The 595.71.05 NVIDIA driver will": (
        "- sm61 595.71.05 -"
    ),
    "### GPU\n\nGTX 1070\n\n### NVIDIA Open GPU Kernel Modules Version\n\n590.48.01-2": "- sm61 590.48.01 -",
    "SIGILL on my Raspberry Pi 4, which has a Cortex-A72": "aarch64-linux - - -",
    "my FreeBSD 14.1 box\nuname will return Linux\n|   0  NVIDIA L4     Off | x |": "x86_64-freebsd sm89 - -",
    "GPU 0: NVIDIA L4\nGPU0     X      0-31      0       N/A": "- sm89 - -",
    "Card name: GeForce GTX 1080\nDriver Version: 10.18.13.6881\nDriver Version: 20.19.15.4531": (
        "- sm61 368.81 -"
    ),
    "OS version: Windows NT 6.1\nName: NVIDIA GeForce GTX 1660": "x86_64-windows sm75 - -",
    "JetPack 6.2 on a\nJetson Orin NX 16GB Devkit": "aarch64-linux sm87 540.4.0 -",
    "mac book m2上": "aarch64-darwin - - mps",
    "My RTX 4090 fails with --height 960": "- sm89 - -",
    "our aarch64 builds are compiled for neoverse-n1": "aarch64-linux - - -",
    "riscv64 Linux, BananaPi F3; as for arm64": "riscv64-linux - - -",
    "none-manylinux_2_28_loongarch64.whl is not supported": "loongarch64-linux - - -",
    "platform:  linux\nCUDA  None\nArchitecture: x86_64": "x86_64-linux - - -",
    LSPCI_AMD + "Phoenix1 (rev c8)": "- - - gfx1103",
    LSPCI_AMD
    + "Renoir [Radeon RX Vega 6 (Ryzen 4000/5000 Mobile Series)] (rev c6)": "x86_64-linux - - gfx90c",
    LSPCI_AMD + "Raphael (rev c8)\nGPU 0: NVIDIA L4\nArchitecture: x86_64": "x86_64-linux sm89 - -",
    LSPCI_AMD + "Newton9 (rev c8)": "- - - other",
    "Info: model: AMD Ryzen 7 7840U w/ Radeon 780M Graphics bits: 64\n"
    "  Device-1: AMD Phoenix3 vendor: Lenovo driver: amdgpu v: kernel": "x86_64-linux - - gfx1103",
    "GPU 1: NVIDIA GeForce RTX 4080 SUPER [Discrete]\nGPU 2: AMD Raphael [Integrated]": "- sm89 - -",
    "OS: Fedora Linux x86_64\nGPU: AMD Radeon 8060S [Integrated]": "x86_64-linux - - gfx1151",
    " - Module: NVIDIA Jetson Orin Nano (8GB ram)\n - Release: 5.15.148-tegra": "aarch64-linux sm87 540 -",
    "Kaggle notebook with 2x Tesla T4, driver 560.35.03": "- sm75 - -",
    "GPU: GeForce RTX 3070\nmy Ryzen 7 5800X has L2: 4 MiB": "x86_64-linux sm86 - -",
    "a GeForce RTX 3070 beside a Ryzen 7 5800X, 512KB L1 and 4MB L2 cache": "x86_64-linux sm86 - -",
    "Specs: 13900k, 4090, 64gb ddr5, win 11": "x86_64-windows - - -",  # a number alone is no name
    "CPU: i5-10400\nGPU: GTX 1660 Ti 6GB\nOS: Win10": "x86_64-windows sm75 - -",
    "DriverVersion  Name\n31.0.15.5222   NVIDIA GeForce RTX 3060": "x86_64-windows sm86 552.22 -",
    "M3 Max macbook pro 48gb": "aarch64-darwin - - mps",
    "Snapdragon X Plus, WSL2 Ubuntu 24.04": "aarch64-linux - - -",
    "Snapdragon X Elite laptop with Windows 11": "aarch64-windows - - -",
    "homelab: Ryzen 5 5600G, no dedicated GPU": "x86_64-linux - - -",
    "Marketing Name: AMD Radeon RX 7900 XTX\n  Name:   gfx1100": "- - - gfx1100",
    "GPU0:\n\tapiVersion = 1.3.242\n\tdeviceName = NVIDIA GeForce RTX 4060 Ti": "- sm89 - -",
    "Kaggle, accelerator: T4 x2": "- sm75 - -",
}


def answered(text: str) -> Pick:
    facts = read_report(text + "\n", "report.txt", CATALOG)
    return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])


@pytest.mark.parametrize("text", LAYOUTS)
def test_a_machine_is_known_in_whatever_layout_it_is_described(text: str) -> None:
    host = answered(text).host
    targets = [arch for arch in host.archs if isinstance(arch, str)]
    found = [host.system or "-", *map(str, host.sms or ["-"]), str(host.driver or "-")]
    assert " ".join([*found, *(targets or ["other" if host.non_nvidia_gpus else "-"])]) == LAYOUTS[text]
    assert not host.unknown_gpus


@pytest.mark.parametrize(
    ("text", "python", "glibc", "macos"),
    [
        ("RTX 4090 with python 3.9", "", "", ""),
        ("RTX 3060, Python 3.8 or newer is required", "", "", ""),
        ("RTX 3060; I tried it with python3.10", "", "", ""),
        ("RTX 3060, python 3.9 and Python 3.12.1", "", "", ""),
        ('RTX 3060\nFile "/usr/lib/python3.10/runpy.py"', "", "", ""),
        ("RTX 3060, ubuntu 18.04", "", "2.27", ""),
        ("OS: CentOS Linux 7 (Core)\nGPU: RTX 3060\nLibc version: glibc-2.35", "", "2.35", ""),
        ("RTX 3060, upgraded from Ubuntu 18.04 to Ubuntu 22.04", "", "", ""),
        ("M1 Mac macOS 13", "", "", "13"),
        ("MacBook Pro M3 Max on Ventura\nPython version: 3.14", "3.14", "", "13"),
        ("Python platform: macOS-14.2-arm64-arm-64bit", "", "", "14"),
        ("Darwin mini 24.6.0 Darwin Kernel Version 24.6.0 arm64", "", "", "15"),
        ("RTX 3060 in Monterey, CA", "", "", ""),
        ("docker python:3.12-alpine, RTX 3090", "", "musl", ""),
    ],
)
def test_the_python_and_the_release_of_the_system_are_read(
    text: str, python: str, glibc: str, macos: str
) -> None:
    facts = read_report(text, "report.txt", CATALOG)
    found = (str(facts.python.value) if facts.python else "", facts.glibc, facts.macos)
    assert (found[0], *(fact.value if fact else "" for fact in found[1:])) == (python, glibc, macos)


@pytest.mark.parametrize(
    ("text", "target", "torch"),
    [
        ("7840HS with 780M", "gfx1103", "2.14.0"),
        ("Strix Halo", "gfx1151", "2.14.0"),
        ("Ryzen AI Max 395", "gfx1151", "2.14.0"),
        ("model name : AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "gfx1151", "2.14.0"),
        ("a laptop with Ryzen AI 9 HX 370", "gfx1150", "2.14.0"),
        ("Ryzen AI 9 HX 370 with a GTX 1660", "", "2.14.1"),
        ("Ryzen 7 7840U", "", "2.15.0"),
        ("GTX 780M", "", ""),
    ],
)
def test_the_gpu_within_a_cpu_is_known(text: str, target: str, torch: str) -> None:
    answer = answered(text)
    archs = [arch for arch in answer.host.archs if isinstance(arch, str)]
    assert archs == [target] * bool(target)
    assert not target or answer.host.sms == (), "no NVIDIA GPU, and not an unknown one"
    assert [wheel.torch for wheel in wheels_for(answer.host, CATALOG)] == [torch] * bool(torch)
    assert any("Radeon 780M" in note.text for note in answer.facts.notes) is (text == "Ryzen 7 7840U")
    if archs and ":" not in text:
        assert "gpu-spoken" in dict(answer.host.spoken)
        assert any("of the text" in reason for reason in wheels_for(answer.host, CATALOG)[0].assumptions)


def test_what_a_sentence_says_is_a_condition_and_what_a_tool_says_is_none() -> None:
    said = answered("It fails on my RTX 4090 with driver 550.54.15, on x86_64 Linux.").choice.variants[0].fit
    assert {reason.code for reason in said.assumptions} >= {"gpu-spoken", "driver", "system"}
    table = "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15 |\n|   0  NVIDIA L4    Off | x |\n"
    stated = answered(f"{table}Python platform: Linux-5.15.0-x86_64-with-glibc2.35").choice.variants[0].fit
    assert {reason.code for reason in stated.assumptions} == {"isa"}
    node = read_report("NodeName=slinky-0 Arch=x86_64 CoresPerSocket=48", "slurm.txt").system
    assert (node and node.prose) is False


@pytest.mark.parametrize(
    "text",
    [
        "you use 8 A100 GPUs\nI used 8 3090 and it fails",
        "sbatch --gres=gpu:a100:2\nwith a100 or v100, as you like",
    ],
)
def test_what_several_lines_name_are_candidates(text: str) -> None:
    assert " or " in answered(text).host.unknown_gpus[0]


def test_alternatives_are_a_gpu_if_all_of_them_mean_it() -> None:
    assert [str(sm) for sm in answered("An NVIDIA L40 or an NVIDIA L40S, I forgot.").host.sms or ()] == [
        "sm89"
    ]


def test_several_gpus_are_candidates_which_the_catalog_knows() -> None:
    answer = answered("An RTX 3090 or an RTX 5090, I forgot which.")
    [gpu] = answer.facts.gpus.value if answer.facts.gpus else ()
    assert gpu.name is None
    assert gpu.either
    assert gpu.either.value == ("RTX 3090", "RTX 5090")
    assert answer.host.unknown_gpus == ("RTX 3090 or RTX 5090",)
    notes = " ".join(note.text for note in answer.facts.notes if note.code == "gpu")
    assert "RTX 3090 (sm86)" in notes
    assert "state one of them" in notes
    assert "does not know" not in notes


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("I sold my RTX 3090 and have no GPU now. x86_64", None),
        ("My server doesn't have an RTX 4090. x86_64", None),
        ("There is no NVIDIA GPU here. x86_64", None),
        ("It has an L40S, not an A100. x86_64", ("sm89",)),
        ("I have an RTX 4070, not a 3090. x86_64", ("sm89",)),
        ("CUDA does not work on my RTX 4090. x86_64", ("sm89",)),
        ("GPU: none\nArchitecture: x86_64", ()),
        ("Graphics card: no\nArchitecture: x86_64", ()),
        ("GPU: No NVIDIA GPU\nArchitecture: x86_64", ()),
        ("GPUs: 0\nArchitecture: x86_64", ()),
        ("GPU: unknown\nArchitecture: x86_64", None),
    ],
)
def test_a_gpu_that_a_text_denies_is_not_the_machines(text: str, gpus: tuple[str, ...] | None) -> None:
    answer = answered(text)
    assert (tuple(map(str, answer.host.sms or ())) if answer.facts.gpus else None) == gpus


def test_a_release_of_macos_states_the_system() -> None:
    assert not answered("Apple M3, macOS 15.1").host.spoken
    assert answered("a Mac with an Apple M3").host.spoken


def test_an_unknown_system_is_a_condition() -> None:
    answer = answered("GPU 0: NVIDIA L4\nNvidia driver version: 580.65.06")
    fit = answer.choice.variants[0].fit
    assert CATALOG.isas[fit.variant.isa].platform == "x86_64-linux"
    assert any("`uname -m` says x86_64" in reason.text for reason in fit.assumptions)


def test_the_commands_that_give_missing_facts_are_named() -> None:
    assert [command.split()[0] for command in missing_commands(answered("an RTX 4090").host)] == [
        "nvidia-smi",
        "lscpu",
        "cat",
    ]
    with pytest.raises(Invalid, match="lscpu"):
        answered("hello")


def test_a_machine_that_is_shown_outweighs_another_that_is_mentioned() -> None:
    features = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimddp"
    numbers = "CPU implementer : 0x41\nCPU part : 0xd0c"
    host = answered(f"Features : {features}\n{numbers}\nNVIDIA L4\nIt was built on x86_64.").host
    assert host.system == "aarch64-linux"


@pytest.mark.parametrize(
    "driver", ["The latest supported driver is 477.44", "driver 525.60 or newer is required"]
)
def test_a_driver_that_the_machine_may_not_have_is_none(driver: str) -> None:
    assert answered(f"my GTX 1080. {driver}.").host.driver is None


def test_wrapped_flags_are_one_list() -> None:
    flags = (
        "fpu vme de pse tsc msr pae mce cx8 apic cmov mmx sse sse2\nss ht syscall nx lm pni ssse3 fma cx16\n"
    )
    more = "sse4_1 sse4_2 movbe popcnt aes xsave avx f16c rdrand lahf_lm avx2 bmi1 bmi2"
    host = answered(f"processor : 0\nvendor_id : GenuineIntel\nflags : {flags}{more}\nbogomips : 4800").host
    assert host.system == "x86_64-linux"
    assert known_isas(host.features, host.system, CATALOG)[0] == "avx2"


@pytest.mark.parametrize(
    "text",
    [
        "| Device Name: Intel(R) Data Center GPU Max 1550 |",
        "03:00.0 VGA compatible controller: Intel Corporation DG2 [Arc A770] (rev 08)",
        "00:02.0 VGA compatible controller: Intel Corporation Meteor Lake-P [Intel Arc Graphics] (rev 08)",
        "00:02.0 VGA compatible controller: Intel Corporation Lunar Lake [Intel Arc Graphics 130V / 140V]",
        "my GPU is an Intel Arc B580",
    ],
)
def test_a_gpu_of_intel_gets_its_own_wheel_and_no_cpu_build_that_counts(text: str) -> None:
    answer = answered(f"{text}\nArchitecture: x86_64")
    assert not answer.served
    assert [wheel.gpu for wheel in wheels_for(answer.host, CATALOG)] == ["XPU"]


@pytest.mark.parametrize(
    "text",
    [
        "Module: NVIDIA Jetson Orin Nano (Developer kit)\n - Jetpack 5.1.4 [L4T 35.6.0]",
        "Jetson Orin Nano, JetPack 5",
        "Jetson Orin Nano with JetPack 5",
        "Jetson Orin Nano, JetPack 5.1.2",
    ],
)
def test_jetpack_5_is_refused_by_its_name(text: str) -> None:
    answer = answered(text)
    assert not answer.served
    assert wheels_for(answer.host, CATALOG)[0].uses_no_gpu
    reasons = [reason.text for miss in answer.near for reason in miss.reasons]
    assert any("JetPack 6" in reason and "it has L4T 35 (JetPack 5)" in reason for reason in reasons)


JTOP = " Model: NVIDIA Jetson AGX Orin Developer Kit\n Module: NVIDIA Jetson AGX Orin (64GB ram)\n"


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        (" Jetpack 6.0 [L4T 36.3.0]\n CUDA: 12.2.140\n cuDNN: 8.9.4.25", "540.3.0"),
        ("# R36 (release), REVISION: 2.0, GCID: 35084178, BOARD: generic", "540.2.0"),
        ("JetPack 6.0", "540.3.0"),
    ],
)
def test_jetpack_6_0_gets_no_wheel_for_a_cuda_that_it_lacks(text: str, driver: str) -> None:
    answer = answered(JTOP + text)
    assert (str(answer.host.driver), len(answer.facts.gpus.value if answer.facts.gpus else ())) == (driver, 1)
    assert not answer.served
    assert wheels_for(answer.host, CATALOG)[0].uses_no_gpu
    reasons = [reason.text for miss in answer.near for reason in miss.reasons]
    assert any("JetPack 6.1 or newer" in reason and "(JetPack 6.0)" in reason for reason in reasons)


@pytest.mark.parametrize("text", ["Release: 6.99.1-tegra", "L4T 36.4.3\nL4T 35.4.1"])
def test_a_jetson_whose_release_is_unclear_is_still_a_jetson(text: str) -> None:
    l4t = answered(f"Jetson Orin Nano\n{text}").facts.l4t
    assert l4t is not None
    assert l4t.value == "?"


@pytest.mark.parametrize("text", ["L4T 36.4.3", "L4T 36.5.0", "JetPack 6.2", "JetPack 6"])
def test_jetpack_6_1_and_newer_get_the_wheel(text: str) -> None:
    [wheel] = wheels_for(answered(JTOP + text).host, CATALOG)
    assert wheel.cuda == "12.6"
    assert any("JetPack 6.1" in text for text in wheel.assumptions) == (text == "JetPack 6")


@pytest.mark.parametrize("gpu", ["GH200", "GB200", "DGX Spark", "Thor"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_product_decides_its_cpu_wherever_the_question_is_asked(
    gpu: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(sysname="Linux", machine=machine))
    here = HostFacts()
    monkeypatch.setattr("torchsmith.host.detect.detect", lambda machine, limit: here)
    host = capability_of(gather((), stated(gpu=gpu), CATALOG, 1.0))
    assert known_isas(host.features, host.system, CATALOG)[0] == "armv9"


@pytest.mark.parametrize(
    "text",
    ["Ampere Altra with GH200", "GPU 0: NVIDIA GH200\nModel name: Neoverse-V2", "GPU: GH200\nCPU: Neoverse"],
)
def test_a_product_decides_its_cpu_whichever_other_one_a_text_names(text: str) -> None:
    fit = answered(text).choice.variants[0].fit
    assert fit.variant.isa == "armv9"
    assert not {"isa", "cpu-kind"} & {reason.code for reason in fit.assumptions}


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("4070 Ti Super", "sm89"),
        ("7900 XTX", "gfx1100"),
        ("5060 Ti 16GB", "sm120"),
        ("9070 XT", "gfx1201"),
        ("1660super", "sm75"),
        ("ASUS Ascent GX10", "sm121"),
        ("ml.p4de.24xlarge", "sm80"),
        ("nvidia-h100-mega-80gb", "sm90"),
        ("nvidia-rtx-pro-6000", "sm120"),
    ],
)
def test_names_that_people_and_clouds_use(name: str, arch: str) -> None:
    facts = resolve(stated(gpu=name, system=""), CATALOG)
    assert [str(one) for one in capability_of(facts).archs] == [arch]


def test_an_apple_m4_is_no_tesla_m4() -> None:
    with pytest.raises(NotKnown):
        stated(gpu="M4")
    assert find_gpus("device = Apple M4 Max", CATALOG, field=True) == []


@pytest.mark.parametrize(
    "line",
    [
        "port 4090 is taken",
        "L2 cache, P8 state, T4 of 5 rounds",
        "two L2 x 4 MiB, 2 x L2",
        "a 100 GB disk",
        "losses: 12, 4090, 8192",
    ],
)
def test_a_number_or_a_short_word_is_no_gpu_by_itself(line: str) -> None:
    assert find_gpus(line, CATALOG, field=False) == []


@pytest.mark.parametrize(
    "text",
    [
        "CPU:\n  Info: 6-core model: AMD Ryzen 5 3600 bits: 64 cache: L1: 512 KiB L2: 8 MiB L3: 16 MiB\n",
        "CPU:\n  Info: quad core model: Intel Core i7-1165G7 type: MT MCP cache: L2: 6 MiB\n",
        "a Ryzen 5 3600 with 512KB L1 and 4MB L2 cache, Ubuntu\n",
    ],
)
def test_a_cache_is_no_gpu(text: str) -> None:
    assert not capability_of(resolve(read_report(text, "report.txt", CATALOG), CATALOG)).sms


@pytest.mark.parametrize("name", ["Newton9 (rev c8)", "Renoir (rev c6)", "Device 1900 (rev c1)"])
def test_no_wheel_is_offered_on_the_condition_that_an_amd_gpu_is_another(name: str) -> None:
    [wheel] = wheels_for(answered(LSPCI_AMD + name + "\nArchitecture: x86_64").host, CATALOG)
    assert wheel.uses_no_gpu
    assert (name.partition(" (")[0] in wheel.drawbacks[0], "gfx900" in str(wheel.about)) == (True, False)


def test_a_listing_without_a_display_leaves_the_gpu_unknown_and_says_so() -> None:
    text = "00:00.0 Host bridge: Intel Corporation 440FX\n00:03.0 Ethernet controller: Red Hat, Inc.\n"
    facts = machine_of([read_report(text, "report.txt", CATALOG)])
    assert capability_of(facts).unknown_gpus
    assert any("--gpu none" in note.text for note in facts.notes if note.code == "gpu")


def test_a_short_list_of_flags_denies_nothing() -> None:
    text = (
        "Architecture: x86_64\nFlags: avx avx2 ht lm nx pae sse sse2 sse3 sse4_1 sse4_2 ssse3 svm\nend: 1\n"
    )
    assert read_report(text, "report.txt", CATALOG).features is None


def test_standard_input_is_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO(b"GPU 0: NVIDIA L4\nArchitecture: x86_64\n"))
    monkeypatch.setattr(sys, "stdin", text)
    host = capability_of(gather((Path("-"),), stated(), CATALOG, 1.0))
    assert [str(sm) for sm in host.sms or ()] == ["sm89"]


def test_a_driver_in_a_sentence_is_not_taken_for_the_machines() -> None:
    for text in ("RTX 4090 with driver 570 on Ubuntu, x86_64", "RTX 4090, it needs driver 570.86.10"):
        assert read_report(text, "text").driver is None


def test_a_long_line_takes_no_longer_than_a_short_one() -> None:
    start = time.process_time()
    for word in ("-", "driver ", "a-", "NVIDIA A ", "GPU "):
        read_report((word * 8000)[:8000] + "\nNVIDIA GeForce RTX 4090\n", "log")
    assert time.process_time() - start < 3, "one of them alone took four seconds"
