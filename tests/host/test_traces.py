"""A text that shows a GPU in any form never leads to a build for the CPU alone that counts as served."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.host.fleet import read_fleet
from torchsmith.host.pick import Pick, pick
from torchsmith.host.read_report import machine_of, read_report
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = list(open_workspace(None, "wide").cells_of(CATALOG.torch))
LSCPU = """
Architecture:        x86_64
Model name:          Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz
Flags:               fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat sse sse2 ss ht nx lm
                     pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c avx2 bmi1 bmi2
"""
# Lines about GPUs that do not name one.
TRACES = (
    "kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=0, GPU has fallen off the bus.",
    "crw-rw-rw- 1 root root 195,   0 Jan  1 00:00 /dev/nvidia0",
    "llm_load_tensors: VRAM used: 4807.05 MB",
    "#SBATCH --gres=gpu:2",
    "a Quadro of some kind",
    "kfd kfd: amdgpu: added device 1002:744c",
    "npu-smi: Ascend 910B",
    "GPU models and configuration: No CUDA",
    "bash: nvidia-smi: command not found",
    "",
)


def answer_for(text: str) -> Pick | None:
    """The answer, or None if the text is refused."""
    try:
        facts = machine_of([read_report(text, "report.txt")])
    except Problem:
        return None
    return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])


@pytest.mark.parametrize("trace", TRACES)
def test_a_report_that_names_no_gpu_gets_no_cpu_build_unless_a_tool_lists_none(trace: str) -> None:
    for text in (f"{LSCPU}{trace}\n", f"{trace}\n{LSCPU}"):
        answer = answer_for(text)
        assert answer is not None
        assert not answer.served
    listed = answer_for(f"{LSCPU}00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 620\n")
    assert listed is not None
    assert listed.served


@pytest.mark.parametrize(
    "listing",
    [
        "Packages: 1804 (dpkg)\nGPU: Intel UHD Graphics 620\n",
        "Packages: 912 (pacman)\nGPU: Intel Iris Xe Graphics @ 1.30 GHz [Integrated]\n",
        "Graphics:\n  Device-1: Intel TigerLake-LP GT2 [Iris Xe Graphics] driver: i915 v: kernel\n",
    ],
)
def test_a_listing_of_graphics_in_the_cpu_alone_is_complete(listing: str) -> None:
    answer = answer_for(f"{listing}Architecture: x86_64\n")
    assert answer is not None
    assert answer.host.sms == () == answer.host.unknown_gpus
    more = answer_for(f"{listing}GPU 0: NVIDIA GeForce RTX 3050 (UUID: 1)\nArchitecture: x86_64\n")
    assert more is not None
    assert [str(sm) for sm in more.host.sms or ()] == ["sm86"]


def test_a_column_of_an_inventory_that_is_not_known_is_named(tmp_path: Path) -> None:
    sheet = io.StringIO()
    csv.writer(sheet).writerows([["name", "cpu", "card"], ["a", "zen4", "NVIDIA L40S"]])
    (tmp_path / "fleet.csv").write_text(sheet.getvalue())
    fleet = read_fleet(tmp_path / "fleet.csv", CATALOG)
    assert fleet.unused_columns == ("card",)
    assert fleet.kinds[0].facts.gpus is None


def test_two_machines_in_one_text_are_both_served() -> None:
    text = "GPU 0: NVIDIA GeForce RTX 3090 (UUID: 1)\nand mine:\nGPU 0: NVIDIA A100-SXM4-80GB (UUID: 2)\n"
    answer = answer_for(text)
    assert answer is not None
    assert {str(sm) for one in answer.choice.variants for sm in one.gpus} == {"sm86", "sm80"}


OTHERS = {
    "a MacBook Pro, and hashcat -I prints HW.Platform..: x86_64\nType...: GPU\n": "x86_64-darwin",
    "system_profiler SPDisplaysDataType\n  Chipset Model: Apple M3 Pro\n": "aarch64-darwin",
    "Kernel: FreeBSD 14.0-CURRENT amd64\nCPU: Intel Core i7-3520M\n": "x86_64-freebsd",
    "C:\\llama> llama-server\nDevice 0: NVIDIA GeForce RTX 4050, compute capability 8.9\n": "x86_64-windows",
    "Current Operating System: Linux pi 5.15.84-v8+ aarch64\nQuadro RTX 8000\n": "aarch64-linux",
}


@pytest.mark.parametrize("text", OTHERS)
def test_a_mac_an_arm_board_bsd_and_windows_are_no_x86_linux(text: str) -> None:
    answer = answer_for(text)
    assert answer is not None
    assert answer.host.system == OTHERS[text]


def test_two_systems_in_one_text_are_none() -> None:
    text = 'system: "x86_64-linux", multi-user? yes\nsystem: "x86_64-darwin", multi-user? yes\n'
    assert read_report(text, "report.txt").system is None
