"""Products and machine types of clouds by name: what each is, and that no name is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.machines import stated
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.gpu_names import instance_of, system_of_instance
from torchsmith.core.problem import Problem
from torchsmith.host.cover import Cover
from torchsmith.host.fleet import read_fleet
from torchsmith.host.pick import pick
from torchsmith.host.resolve import capability_of
from torchsmith.host.stated import gather
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = open_workspace(None, "wide").cells_of(CATALOG.torch)
# By architecture: names as drivers, sites, people and clouds write them.
NAMES = {
    "sm20": "GTX 580; GeForce 310M; Quadro FX 3800; GeForce GT 430",
    "sm30": "GTX 680; GRID K2; GTX 770; Quadro K4000",
    "sm35": "GTX 780 Ti; Tesla K40c; Tesla K20m",
    "sm37": "Tesla K80; K80; p2.xlarge; Standard_NC6",
    "sm50": "GTX 750 Ti; Quadro M1000M; GeForce 930MX; GTX 960M",
    "sm52": "GTX 980; GTX 970; GTX TITAN X; Tesla M60; M40; g3.4xlarge; 980ti",
    "sm53": "Jetson Nano; Jetson TX1",
    "sm62": "Jetson TX2",
    "sm72": "Jetson AGX Xavier; Jetson Xavier NX",
    "sm60": "Tesla P100-PCIE-16GB; Quadro GP100; Standard_NC6s_v2",
    "sm61": "GTX 1080 Ti; GeForce GTX 1060 6GB; Tesla P40; TITAN Xp; TITAN X (Pascal); 1080ti;"
    " P106-100; Standard_ND6s",
    "sm70": "Tesla V100-SXM2-32GB; V100S-PCIE-32GB; TITAN V; volta32; p3.2xlarge;"
    " p3dn.24xlarge; Standard_NC6s_v3",
    "sm75": "Tesla T4; RTX 2080 Ti; Quadro RTX 8000; TITAN RTX; GTX 1650 Ti with Max-Q Design; 2080ti;"
    " rtx8000; g4dn.xlarge; Standard_NC4as_T4_v3; RTX 2070 SUPER; T4G; g5g.xlarge",
    "sm80": "A100-SXM4-80GB; NVIDIA A30; A800; a2-highgpu-1g; a2-ultragpu-2g; p4d.24xlarge; p4de.24xlarge;"
    " Standard_ND96asr_v4; Standard_NC24ads_A100_v4; CMP 170HX; A100 80GB PCIe",
    "sm86": "RTX 3090; RTX 3060 Laptop GPU; A10G; A40; RTX A6000; a5000; 3090; g5.xlarge;"
    " Standard_NV36ads_A10_v5; NVIDIA A2; RTX A2000 12GB",
    "sm87": "Jetson AGX Orin; Jetson Orin NX; Jetson Orin Nano Developer Kit; Orin (nvgpu);"
    " Jetson Orin Nano Super",
    "sm89": "RTX 4090; RTX 4070 Ti SUPER; L4; L40S; RTX 6000 Ada Generation; g6.xlarge; g6e.12xlarge;"
    " g2-standard-4; RTX 2000E Ada Generation; RTX 4090 D",
    "sm90": "H100 80GB HBM3; H200; H20; GH200 480GB; p5.48xlarge; p5en.48xlarge; a3-highgpu-8g;"
    " a3-ultragpu-8g; Standard_ND96isr_H100_v5; H100 NVL",
    "sm100": "B200; GB200; a4-highgpu-8g; a4x-highgpu-4g; p6-b200.48xlarge",
    "sm103": "B300 SXM6 AC; GB300; a4x-maxgpu-4g",
    "sm110": "Jetson AGX Thor; Jetson T5000",
    "sm120": "RTX 5090; RTX 5070 Ti Laptop GPU; RTX PRO 6000 Blackwell Server Edition; g7e.2xlarge;"
    " RTX 5090 D",
    "sm121": "GB10; DGX Spark",
}
EVERY = [(name, sm) for sm, names in NAMES.items() for name in names.split("; ")]


def test_there_are_enough_names() -> None:
    assert len({name for name, _ in EVERY}) >= 120


@pytest.mark.parametrize(("name", "sm"), EVERY)
def test_a_product_is_what_it_is(name: str, sm: str) -> None:
    host = capability_of(gather([], stated(gpu=name, system=""), CATALOG, 1.0))
    assert [str(one) for one in host.sms or ()] == [sm]


@pytest.mark.parametrize(
    "name",
    [
        "H10",
        "RTX 4900",
        "a2-tinygpu-1g",
        "p9.xlarge",
        "A1000X",
        "titanx",
        "rtx6000",
        "g6",
        "NVIDIA DGX Display",
        "rtx 4090 foo",
        "foo rtx 4090",
        "RTX 4090 Ti",
        "rtx4090ti",
        "rtx 3060 ti super",
        "GTX 1060 Ti",
        "GTX 980 foo",
        "RX 7900 XTX foo",
    ],
)
def test_a_name_that_merely_looks_like_a_products_is_none(name: str) -> None:
    with pytest.raises(Problem):
        stated(gpu=name)


def test_arm_machines_of_the_clouds_are_arm() -> None:
    for word in ("g5g.xlarge", "a4x-highgpu-4g", "p6e-gb200.36xlarge", "Standard_ND128isr_NDR_GB200_v6"):
        kind = instance_of(word, CATALOG)
        assert kind is not None
        assert system_of_instance(kind, CATALOG) == "aarch64-linux"


FLEETS = {
    "clouds": ["p3.2xlarge", "p4d.24xlarge", "p5.48xlarge", "g4dn.xlarge", "g5.xlarge", "g6.xlarge",
               "g6e.xlarge", "a2-highgpu-1g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g",
               "Standard_NC6"],
    "a site": ["2080ti", "1080ti", "rtx8000", "a6000", "a5000", "3090", "volta32", "titanxp",
               "980", "h100", "rtx2080ti"],
    "boards and desks": ["Jetson AGX Orin", "Jetson Xavier NX", "DGX Spark", "RTX 5090", "RTX 4070 Ti",
                         "GTX 1650",
                         "GH200", "RTX PRO 6000 Blackwell", "Thor", "none"],
}  # fmt: skip


@pytest.mark.parametrize("name", FLEETS)
def test_each_machine_of_a_fleet_gets_what_pick_gives_it(name: str, tmp_path: Path) -> None:
    rows = "".join(f"{at},{gpu}\n" for at, gpu in enumerate(FLEETS[name]))
    (tmp_path / "fleet.csv").write_text(f"name,gpu\n{rows}")
    fleet = read_fleet(tmp_path / "fleet.csv", CATALOG)
    assert not fleet.unread
    cells = CELLS
    workload = CATALOG.workloads["general"]
    cover = Cover(fleet, cells, CATALOG, workload)
    served = {kind: row.variant for row in cover.served(cover.fewest()) for kind in row.kinds}
    for kind in fleet.kinds:
        answer = pick(kind.facts, cells, CATALOG, workload)
        fits = {fit.cell.name: fit.cell.variant for fit in answer.ranking.fits}
        if answer.served:
            assert (fits[served[kind.name] or ""].sm is None) == (not answer.host.sms)
        else:
            assert served[kind.name] is None
