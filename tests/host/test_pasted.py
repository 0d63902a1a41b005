"""Reports as people paste them: no GPU that a text shows is ever passed over, and no fact is made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.machines import stated
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.axes import DriverVersion
from torchsmith.core.problem import Problem
from torchsmith.host.facts import HostFacts
from torchsmith.host.pick import Pick, missing_commands, pick
from torchsmith.host.read_report import read_report, read_report_file
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import gather
from torchsmith.host.wheels import wheels_for
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = open_workspace(None, "wide").cells_of(CATALOG.torch)
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   36C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
COLLECT_ENV = """\
Collecting environment information...
PyTorch version: 2.5.1+cu121
OS: Ubuntu 22.04.5 LTS (x86_64)
Libc version: glibc-2.35
Python platform: Linux-5.15.0-107-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.4.131
GPU models and configuration: {gpus}
Nvidia driver version: 535.183.01
cuDNN version: Could not collect
"""


def read(text: str) -> HostFacts:
    return resolve(read_report(text, "paste"), CATALOG)


def known(text: str) -> Capability:
    return capability_of(read(text))


def sms(host: Capability) -> list[str]:
    return [str(sm) for sm in host.sms or ()]


def picked(facts: HostFacts) -> Pick:
    return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])


def machine(**words: str) -> HostFacts:
    return gather([], stated(**words), CATALOG, 1.0)


DRESSES: dict[str, Callable[[str, int], str]] = {
    "quoted": lambda line, at: f"> {line}",
    "quoted twice": lambda line, at: f">> > {line}",
    "numbered": lambda line, at: f"{at + 1:>3} | {line}",
    "indented": lambda line, at: f"      {line}",
    "with timestamps": lambda line, at: f"2025-03-01T10:20:3{at % 10}.123Z {line}",
    "with times": lambda line, at: f"[10:20:3{at % 10}] {line}",
    "in a diff": lambda line, at: f"+{line}",
    "in a list": lambda line, at: line,
}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("text", [TABLE, COLLECT_ENV.format(gpus="GPU 0: NVIDIA H100 PCIe")])
def test_what_stands_before_every_line_does_not_hide_a_gpu(text: str, dress: str) -> None:
    lines = [DRESSES[dress](line, at) for at, line in enumerate(text.splitlines())]
    host = known("\n".join(lines) + "\n")
    assert sms(host) == ["sm90"]
    assert host.driver is not None
    assert host.driver.parts[0] in (535, 550)


def test_markup_and_powershells_encoding_do_not_hide_a_gpu(tmp_path: Path) -> None:
    assert sms(known(f"<details><summary>smi</summary>\n<pre>{TABLE}</pre></details>")) == ["sm90"]
    assert sms(known("| key | value |\n|---|---|\n| GPU 0 | NVIDIA L4 |\n| driver | 550.1 |\n")) == ["sm89"]
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig"):
        (tmp_path / "smi.txt").write_bytes(TABLE.encode(encoding))
        assert sms(capability_of(resolve(read_report_file(tmp_path / "smi.txt"), CATALOG))) == ["sm90"]


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        ("GPU 0: NVIDIA H100 80GB HBM3", ["sm90"]),
        ("\nGPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n", ["sm80"]),
        ("NVIDIA GeForce RTX 4090", ["sm89"]),
    ],
)
def test_collect_env_tells_gpus_driver_system_and_library(gpus: str, found: list[str]) -> None:
    facts = read(COLLECT_ENV.format(gpus=gpus))
    assert sms(capability_of(facts)) == found
    assert str(facts.driver and facts.driver.value) == "535.183.01"
    assert facts.system is not None
    assert facts.system.value == "x86_64-linux"
    assert facts.glibc is not None
    assert facts.glibc.value == "2.35"


def test_the_other_forms_of_collect_env() -> None:
    vllm = "Is CUDA available            : True\nGPU models and configuration : GPU 0: NVIDIA L40S\n"
    host = known(vllm + "Nvidia driver version        : 580.105.08\n")
    assert (sms(host), str(host.driver)) == (["sm89"], "580.105.08")
    sglang = "GPU 0,1,2: NVIDIA GB200\nGPU 0,1,2 Compute Capability: 10.0\nCUDA Driver Version: 570.124.06\n"
    facts = read(sglang)
    assert facts.gpus is not None
    assert len(facts.gpus.value) == 3
    assert str(capability_of(facts).driver) == "570.124.06"
    assert (
        known("{'CUDA available': True,\n 'GPU 0,1': 'NVIDIA TITAN RTX',\n}\n").sms
        == known("GPU 0: NVIDIA TITAN RTX\n").sms
    )


def test_both_halves_of_two_reports_in_one_text_are_used() -> None:
    both = "$ nvidia-smi -L\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-x)\n$ nvidia-smi\n" + TABLE
    host = known(both)
    assert (sms(host), str(host.driver)) == (["sm90"], "550.90.07")
    other = read(f"{TABLE}\nNvidia driver version: 535.54.03\n")
    assert str(other.driver and other.driver.value) == "535.54.03"  # the older one runs either way
    assert any("550.90.07" in note.text for note in other.notes)


def test_the_header_since_r610_tells_the_driver() -> None:
    header = "| NVIDIA-SMI 610.43.02   KMD Version: 610.43.02   CUDA UMD Version: 13.3 |\n"
    host = known(header + TABLE.split("\n", 2)[2])
    assert (sms(host), str(host.driver)) == (["sm90"], "610.43.02")


@pytest.mark.parametrize(
    "text",
    [
        TABLE.replace("H100 80GB HBM3 ", "GeForce ...    "),
        "Gres=gpu:my-own-name:2\n",
        COLLECT_ENV.format(gpus="GPU 0: NVIDIA Something New"),
        "I have an RTX 3090 and an RTX 5090, and one of them does not work. driver version 570.1\n",
    ],
)
def test_a_gpu_that_is_seen_and_not_understood_gets_no_build_for_the_cpu(text: str) -> None:
    answer = picked(read(text))
    assert answer.host.unknown_gpus
    assert not answer.has_variant
    assert not answer.served
    assert not answer.wanted
    assert wheels_for(answer.host, CATALOG) == []
    assert answer.facts.notes


def test_a_sentence_tells_a_gpu_where_it_names_one_kind() -> None:
    facts = read("It fails on my machine with an RTX 3090 (RTX3090, driver 535.104.05). lscpu is at work.\n")
    assert sms(capability_of(facts)) == ["sm86"]
    assert facts.driver is None  # sentences also name drivers that a machine does not have
    assert any("RTX 3090" in note.text for note in facts.notes)


def test_gres_types_are_gpus_whatever_a_site_calls_them() -> None:
    types = {
        "3090": "sm86", "2080ti": "sm75", "1080ti": "sm61", "rtx2080ti": "sm75", "a5000": "sm86",
        "a6000": "sm86", "rtx8000": "sm75",
        "volta32": "sm70", "geforce_rtx_2080_ti": "sm75", "a100_80gb": "sm80",
        "980": "sm52",
    }  # fmt: skip
    node = "NodeName=n1 Arch=x86_64 \n   Gres=gpu:{}:3\n"
    assert [sms(known(node.format(name))) for name in types] == [[sm] for sm in types.values()]
    assert known(node.format("titanx")).unknown_gpus == ("titanx",)


@pytest.mark.parametrize(
    "name", ["a2-highgpu-1g", "a2-ultragpu-8g", "p4d.24xlarge", "Standard_NC24ads_A100_v4"]
)
def test_an_instance_type_is_no_part_whose_name_it_holds(name: str) -> None:
    assert sms(capability_of(machine(gpu=name))) == ["sm80"]
    with pytest.raises(Problem):
        machine(gpu="a2-tinygpu-1g")


def test_the_system_that_a_text_states_counts_beside_a_list_of_linux_features() -> None:
    flags = "Flags: fpu sse2 ssse3 cx16 pni avx avx2 lm f16c fma popcnt sse4_2\n"
    assert known(f"{flags}OS: Microsoft Windows 11 Pro\n").system == "x86_64-windows"
    assert known(f"{flags}OS: Ubuntu 24.04\n").system == "x86_64-linux"


def test_a_target_that_is_in_the_name_of_a_gpu_is_named_once() -> None:
    host = known("Name: gfx1101\nMarketing Name: AMD Radeon RX 7800 XT\n")
    assert host.code_for("gfx1101") == "native code for your AMD Radeon RX 7800 XT (gfx1101)"


def test_a_cpu_of_its_kind_that_a_text_names_gives_way_to_that_of_the_gpu() -> None:
    arm = known("Model name: Neoverse-N1\nGPU 0: NVIDIA GH200 480GB\n")
    assert (arm.system, arm.conflict) == ("aarch64-linux", "")
    assert arm.features == capability_of(machine(cpu="neoverse_v2")).features
    assert known("Model name: AMD EPYC 9654\nGPU 0: NVIDIA GH200 480GB\n").conflict


@pytest.mark.parametrize("name", ["GH200", "NVIDIA GB200", "GB300", "DGX Spark", "Jetson AGX Orin", "Thor"])
def test_the_product_decides_the_system_and_its_cpu(name: str) -> None:
    host = capability_of(machine(gpu=name))
    assert host.system == "aarch64-linux"
    assert host.features
    for words in ({"system": "x86_64"}, {"cpu": "zen4"}, {"isa": "avx512"}):
        assert capability_of(machine(gpu=name, **words)).conflict
    report = f"Architecture: x86_64\nGPU 0: NVIDIA {name.removeprefix('NVIDIA ')}\n"
    assert known(report).conflict
    assert not picked(read(report)).has_variant


@pytest.mark.parametrize("text", ["Flags: fp asimd evtstrm aes p\n", "Flags: fp asimd evtstrm aes pmull ..."])
def test_of_a_list_of_features_that_breaks_off_none_is_known(text: str) -> None:
    answer = picked(read(f"Architecture: aarch64\n{text}"))
    assert answer.host.features is None
    assert answer.has_variant
    assert answer.choice.variants[0].fit.assumes("isa")


def test_wheel_and_build_have_the_same_conditions() -> None:
    for words in ({"gpu": "H100"}, {"gpu": "H100", "driver": "525"}, {"gpu": "V100"}):
        answer = picked(machine(cpu="zen4", **words))
        [wheel] = wheels_for(answer.host, CATALOG)
        assert any(text.startswith("the driver is 525.60.13") for text in wheel.assumptions)
        for fit in [*(one.fit for one in answer.choice.variants if one.gpus), *answer.wanted]:
            assert fit.assumes("driver")
    [old] = wheels_for(capability_of(machine(cpu="zen4", gpu="V100", driver="418.87")), CATALOG)
    assert old.cuda == ""


@pytest.mark.parametrize("gpu", ["V100", "GTX 1080 Ti", "P100"])
def test_nothing_is_offered_that_no_nixpkgs_here_can_build(gpu: str) -> None:
    for fit in picked(machine(cpu="haswell", gpu=gpu)).wanted:
        line = CATALOG.lines[fit.cell.line]
        build = line.build_for(fit.variant.toolkit)
        assert build is not None
        assert build.style != "flox"


@pytest.mark.parametrize(
    "gpu", ["Tesla K80", "M60", "GTX 980", "Jetson Xavier NX", "Jetson Nano", "GeForce 930MX"]
)
def test_a_gpu_that_is_too_old_is_known_to_be_and_keeps_its_machine_from_being_served(gpu: str) -> None:
    answer = picked(read(f"GPU 0: NVIDIA {gpu} (UUID: GPU-x)\n"))
    assert not answer.host.unknown_gpus
    assert answer.choice.unserved
    assert not answer.served


@pytest.mark.parametrize(
    ("driver", "assumed"),
    [("525", True), ("535", False), ("525.60.13", False), ("570", False), ("418", None)],
)
def test_a_branch_is_asked_for_more_only_where_that_decides(driver: str, assumed: bool | None) -> None:
    answer = picked(machine(cpu="zen4", gpu="A100", driver=driver))
    if assumed is None:
        assert answer.choice.unserved
    else:
        assert answer.choice.variants[0].fit.assumes("driver") is assumed


def test_a_driver_alone_is_no_machine_without_a_gpu() -> None:
    with pytest.raises(Problem, match="no NVIDIA GPU"):
        machine(cpu="zen4", driver="570")


def test_numbers_stay_as_they_were_written() -> None:
    written = [DriverVersion.parse(text) for text in ("510.06", "510.6", "331.20", "580.65.06", "570")]
    assert [str(driver) for driver in written] == ["510.06", "510.6", "331.20", "580.65.06", "570"]
    assert DriverVersion.parse("510.06") >= DriverVersion.parse("510")


def test_labels_that_hold_nonsense_are_unknown() -> None:
    text = "kubernetes.io/arch=amd64\nnvidia.com/gpu.product=NVIDIA-L4\n"
    text += "nvidia.com/cuda.driver-version.full=12.2\n"
    host = known(text)
    assert sms(host) == ["sm89"]
    assert host.driver is None
    assert known(text.replace("12.2", "535.104.05")).driver is not None


LABELS = """\
Name:               gpu-node-1
Roles:              <none>
Labels:             beta.kubernetes.io/arch=amd64
                    beta.kubernetes.io/instance-type=g5.xlarge
                    feature.node.kubernetes.io/cpu-cpuid.AVX=true
                    feature.node.kubernetes.io/cpu-cpuid.AVX2=true
                    feature.node.kubernetes.io/cpu-cpuid.FMA3=true
                    feature.node.kubernetes.io/kernel-config.NO_HZ=true
"""


def test_labels_of_kubernetes_state_the_system_and_the_gpu() -> None:
    host = known(LABELS)
    assert (sms(host), host.system) == (["sm86"], "x86_64-linux")
    yaml = "apiVersion: v1\nkind: Node\nmetadata:\n  labels:\n    kubernetes.io/arch: amd64\n"
    assert sms(known(yaml + "    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB\n")) == ["sm80"]


@pytest.mark.parametrize(
    ("text", "sm"),
    [
        (
            "NVIDIA GeForce RTX 5080 Laptop GPU with CUDA capability sm_120 is not compatible with torch",
            "sm120",
        ),
        ("Found GPU0 NVIDIA RTX 6000 Ada Generation which is of cuda capability 8.9.", "sm89"),
        ("  Device 0: NVIDIA GeForce RTX 3060, compute capability 8.6, VMM: yes", "sm86"),
        ('Device 0: "Tesla T4"\n  CUDA Capability Major/Minor version number:    7.5', "sm75"),
        (
            "IOMMU Group 14 01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [10de:2684]",
            "sm89",
        ),
        ("\t01:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)", "sm80"),
        (" - Model: NVIDIA Jetson Orin NX Engineering Reference Developer Kit\n - L4T: 36.4.3", "sm87"),
        ("# R38 (release), REVISION: 2.0, GCID: 1, BOARD: generic, EABI: aarch64", "sm110"),
    ],
)
def test_other_tools_lines_tell_a_gpu(text: str, sm: str) -> None:
    assert sms(known(text + "\n")) == [sm]


def test_gpus_of_others_keep_a_machine_from_being_served_and_are_named() -> None:
    agent = "HSA Agents\n*******\nAgent 1\n*******\n  Name:    AMD Ryzen 5 1600X Six-Core Processor\n"
    rocminfo = (
        agent + "  Device Type:   CPU\n*******\nAgent 2\n*******\n  Name:   gfx1100\n  Device Type:   GPU\n"
    )
    answer = picked(read(rocminfo))
    assert "gfx1100" in answer.host.non_nvidia_gpus[0]
    assert not any("nvidia-smi" in command for command in missing_commands(answer.host))
    assert answer.has_variant
    assert not answer.served
    mac = picked(read("OS: macOS 14.2 (arm64)\nPython platform: macOS-14.2-arm64-arm-64bit\n"))
    assert mac.host.system == "aarch64-darwin"
    assert not mac.has_variant


def test_a_cpu_of_which_only_the_name_is_known_is_taken_at_its_word_with_a_condition() -> None:
    text = (
        "Architecture: x86_64\nVendor ID: GenuineIntel\nModel name: 13th Gen Intel(R) Core(TM) i9-13950HX\n"
    )
    fit = picked(read(text)).choice.variants[0].fit
    assert fit.variant.isa == "avx2"
    assert fit.assumptions
