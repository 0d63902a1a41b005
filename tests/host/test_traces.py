"""A text that shows a GPU in any form never leads to a build for the CPU alone that counts as served."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.host.facts import HostFacts
from torchsmith.host.fleet import read_fleet
from torchsmith.host.pick import Pick, pick
from torchsmith.host.read_report import read_report
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = list(open_workspace(None, "wide").cells_of(CATALOG.torch))
LSCPU = """
Architecture:        x86_64
Model name:          Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz
Flags:               fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat sse sse2 ss ht nx lm
                     pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c avx2 bmi1 bmi2
"""
# What a machine with a GPU leaves in logs, lists and forms, of every maker; none of these forms has a reader.
TRACES = (
    "GA102 at your service: nvidia-persistenced is running",
    "kernel: nvidia: loading out-of-tree module taints kernel.",
    "kernel: NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1290)",
    "kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=0, GPU has fallen off the bus.",
    "nouveau 0000:01:00.0: unknown chipset (192000a1)",
    "(--) PCI:*(1@0:0:0) 10de:2684:1458:40bf rev 161, Mem @ 0x85000000/16777216",
    "(II) NVIDIA GLX Module  535.54.03",
    "OpenGL vendor string: NVIDIA Corporation",
    "01:00.0 0302: 10de:20b5 (rev a1)",
    'Vendor: pci 0x10de "nVidia Corporation"',
    "      *-display UNCLAIMED  vendor: NVIDIA Corporation",
    "crw-rw-rw- 1 root root 195,   0 Jan  1 00:00 /dev/nvidia0",
    "ls /proc/driver/nvidia/gpus: 0000:41:00.0",
    "INFO 01-02 gpu_executor.py:122] # GPU blocks: 27993, # CPU blocks: 2048",
    "INFO model_runner.py:1060] Capturing the model for CUDA graphs.",
    "llama_model_load: offloaded 33/33 layers to GPU",
    "llm_load_tensors: VRAM used: 4807.05 MB",
    'time=2026 level=INFO source=gpu.go:221 msg="looking for compatible GPUs"',
    "Total VRAM 24564 MB, total RAM 64213 MB",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity)",
    "Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    "image: nvcr.io/nvidia/pytorch:24.05-py3",
    "nvidia.com/mig-1g.10gb: 7",
    "AvailableFeatures=rtx3090,ib",
    "GresTypes=gpu",
    "#SBATCH --gres=gpu:2",
    "machine with 8x H100 SXM",
    "my card is an RTX 4090",
    "a Quadro of some kind",
    "Slot 3: Tesla",
    "Jetson of a colleague",
    "NCCL version 2.18.1+cuda12.1",
    "amdgpu 0000:03:00.0: amdgpu: VRAM: 24560M",
    "kfd kfd: amdgpu: added device 1002:744c",
    "HSA_OVERRIDE_GFX_VERSION with gfx1030",
    "OpenGL renderer string: AMD Radeon RX 6700 XT (radeonsi, navi22, LLVM 15.0.7, DRM 3.49)",
    "amd.com/gpu: 8",
    "torch.version.hip is set: rocm 6.1",
    "Instinct of the third generation",
    "DeviceName: Intel(R) Data Center GPU Max 1550",
    "Intel(R) Arc(TM) A770 Graphics",
    "habanalabs hl0: Gaudi2",
    "npu-smi: Ascend 910B",
    "backend: mps:0",
    "ggml_metal_init: found device: Apple M2 Max",
    "TPU v4 pod slice",
)
HARDWARE = 13  # the first so many of them are of a driver at work or of a device
# Lines that are no trace of a GPU.
HARMLESS = (
    "[pip3] nvidia-cublas-cu12==12.1.3.1",
    "nvidia-nccl-cu12==2.18.1",
    "pytorch-cuda              11.8                 h7e8668a_5    pytorch",
    "GPU models and configuration: No CUDA",
    "Is CUDA available: False",
    "CUDA used to build PyTorch: None",
    "ROCM used to build PyTorch: N/A",
    "bash: nvidia-smi: command not found",
    "$ nvidia-smi",
    "00:02.0 VGA compatible controller: Intel Corporation UHD Graphics 620 (rev 07)",
    "Processor: AMD Ryzen 7 5700U with Radeon Graphics",
    "there is no GPU in it",
)


def answer_for(text: str) -> Pick | None:
    """The answer, or None if the text is refused."""
    try:
        facts = read_report(text, "report.txt")
    except Problem:
        return None
    return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])


@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_of_a_gpu_is_never_answered_with_a_cpu_build(trace: str) -> None:
    answer = answer_for(f"{LSCPU}{trace}\n")
    assert answer is not None
    uses_gpu = answer.has_variant and answer.choice.variants[0].gpus
    assert not answer.served or (uses_gpu and answer.choice.variants[0].fit.assumes("gpu-spoken"))
    named = answer.host.non_nvidia_gpus or any(note.gpu for note in answer.facts.notes)
    assert named or answer.host.sms  # the line is told


@pytest.mark.parametrize("line", HARMLESS)
def test_packages_denials_and_integrated_graphics_are_no_trace(line: str) -> None:
    answer = answer_for(f"{LSCPU}{line}\n")
    assert answer is not None
    assert answer.served


PREFIXES = (
    "",
    "> ",
    "  ",
    "2026-01-02 03:04:05 ",
    "Jan  2 03:04:05 host app[12]: ",
    "+ ",
    "12: ",
    "- ",
    "| ",
    "`",
)


@settings(max_examples=150, deadline=None)
@given(
    trace=st.sampled_from(TRACES),
    others=st.lists(st.sampled_from(HARMLESS), max_size=4),
    prefix=st.sampled_from(PREFIXES),
    first=st.booleans(),
    upper=st.booleans(),
)
def test_whatever_stands_around_a_trace(
    trace: str, others: list[str], prefix: str, first: bool, upper: bool
) -> None:
    """The trace may be quoted, dated or shouted, and denials may be beside it if it is hardware."""
    hardware = TRACES.index(trace) < HARDWARE
    around = others if hardware else []
    line = prefix + (trace.upper() if upper and not hardware else trace)
    text = "\n".join([*around, line]) if not first else "\n".join([line, *around])
    answer = answer_for(f"{text}\n{LSCPU}" if first else f"{LSCPU}{text}\n")
    assert answer is None or not answer.served or answer.choice.variants[0].gpus


@pytest.mark.parametrize("column", ["accelerator", "card", "notes", "graphics"])
def test_an_inventory_with_gpus_in_a_column_that_nobody_reads(column: str, tmp_path: Path) -> None:
    sheet = io.StringIO()
    csv.writer(sheet).writerows([["name", "cpu", column], ["a", "zen4", "NVIDIA L40S"], ["b", "zen4", ""]])
    (tmp_path / "fleet.csv").write_text(sheet.getvalue())
    first, second = read_fleet(tmp_path / "fleet.csv", CATALOG).kinds
    assert first.facts.gpus is not None
    assert second.facts.gpus is None


def test_two_machines_in_one_text_are_both_served() -> None:
    text = "GPU 0: NVIDIA GeForce RTX 3090 (UUID: 1)\nand mine:\nGPU 0: NVIDIA A100-SXM4-80GB (UUID: 2)\n"
    answer = answer_for(text)
    assert answer is not None
    assert {str(sm) for one in answer.choice.variants for sm in one.gpus} == {"sm86", "sm80"}


def test_drivers_of_sentences_that_contradict_each_other_are_no_driver() -> None:
    text = f"{LSCPU}RTX 3090. With driver 535.104.05 it fails, and with driver 470.82.01 it works.\n"
    facts: HostFacts = read_report(text, "report.txt")
    assert facts.driver is None


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
