"""GPU names to architectures, look-alikes above all."""

from __future__ import annotations

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.gpu_names import gpu_of_name

CATALOG = builtin_catalog()


@pytest.mark.parametrize(
    ("name", "sm"),
    [
        ("NVIDIA A10", "sm86"),
        ("NVIDIA A10G", "sm86"),
        ("NVIDIA A100-SXM4-80GB", "sm80"),
        ("NVIDIA A100 80GB PCIe", "sm80"),
        ("NVIDIA L4", "sm89"),
        ("NVIDIA L40S", "sm89"),
        ("NVIDIA L40", "sm89"),
        ("Tesla T4", "sm75"),
        ("NVIDIA T400 4GB", "sm75"),
        ("NVIDIA RTX A6000", "sm86"),
        ("Quadro RTX 6000", "sm75"),
        ("NVIDIA RTX 6000 Ada Generation", "sm89"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm120"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "sm89"),
        ("Quadro RTX 4000", "sm75"),
        ("NVIDIA GeForce RTX 2050", "sm86"),
        ("NVIDIA GeForce RTX 2080 Ti", "sm75"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "sm89"),
        ("NVIDIA H20", "sm90"),
        ("NVIDIA H200", "sm90"),
        ("NVIDIA GH200 480GB", "sm90"),
        ("NVIDIA B200", "sm100"),
        ("NVIDIA GB200", "sm100"),
        ("NVIDIA B300 SXM6 AC", "sm103"),
        ("NVIDIA GB10", "sm121"),
        ("NVIDIA Thor", "sm110"),
        ("Orin (nvgpu)", "sm87"),
        ("GRID T4-16Q", "sm75"),
        ("GRID RTX6000-8Q", "sm75"),
        ("NVIDIA RTX6000-Ada-48Q", "sm89"),
        ("rtx4090", "sm89"),
        ("rtxa6000", "sm86"),
        ("NVIDIA A10-24Q", "sm86"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "sm90"),
    ],
)
def test_a_name_leads_to_its_architecture(name: str, sm: str) -> None:
    gpu = gpu_of_name(name, CATALOG)
    assert gpu is not None
    assert gpu.name == sm


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA RTX 6000",
        "Tesla K80",
        "AMD Instinct MI300X",
        "NVIDIA A1001",
        "A100 RTX 4090",
        "T4 L4",
        "rtx6000",
        "",
    ],
)
def test_a_name_that_is_unclear_leads_nowhere(name: str) -> None:
    assert gpu_of_name(name, CATALOG) is None


def test_every_part_of_the_catalog_is_found_by_its_own_name() -> None:
    for gpu in CATALOG.gpus.values():
        for part in gpu.parts:
            assert gpu_of_name(f"NVIDIA {part}", CATALOG) == gpu
