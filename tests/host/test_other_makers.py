"""Machines of the clouds, of Windows and with GPUs of other makers: what is known, and what is offered."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import torchsmith
from tests.host.machines import stated
from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.gpu_names import gfx_of_name, instance_of, product_of_name
from torchsmith.catalog.load import Layer
from torchsmith.core.problem import NotKnown
from torchsmith.core.process import run
from torchsmith.host.cover import Cover
from torchsmith.host.fleet import read_fleet
from torchsmith.host.read_report import read_report
from torchsmith.host.resolve import Capability, capability_of, known_isas, resolve
from torchsmith.host.stated import gather, stated_facts
from torchsmith.host.wheels import wheels_for
from torchsmith.matrix import Variant
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()


def machine(**words: str) -> Capability:
    return capability_of(gather([], stated(**words), CATALOG, 1.0))


def known(text: str) -> Capability:
    return capability_of(resolve(read_report(text, "paste"), CATALOG))


@pytest.mark.parametrize(
    ("kind", "widest"),
    [
        ("p3.2xlarge", "avx2"),
        ("p4d.24xlarge", "avx512vnni"),
        ("p5.48xlarge", "avx2"),
        ("g5.xlarge", "avx2"),
        ("g5g.xlarge", "armv8_2"),
        ("a2-highgpu-1g", "avx512vnni"),
        ("a3-highgpu-8g", "avx512bf16"),
        ("a4x-highgpu-4g", "armv9"),
        ("Standard_NC24ads_A100_v4", "avx2"),
        ("Standard_ND96isr_H100_v5", "avx512bf16"),
    ],
)
def test_a_cloud_machine_is_known_with_its_cpu(kind: str, widest: str) -> None:
    host = machine(gpu=kind)
    assert known_isas(host.features, host.system, CATALOG)[0] == widest


def test_a_system_that_is_stated_is_not_that_of_the_cloud_machine() -> None:
    assert machine(gpu="g5.xlarge").system == "x86_64-linux"
    assert machine(gpu="g5.xlarge", system="windows").system == "x86_64-windows"


def test_most_cloud_machines_name_their_cpu() -> None:
    kinds = CATALOG.instances.values()
    assert len([one for one in kinds if one.cpu]) >= 0.9 * len(kinds)
    assert all(product_of_name(one.gpu, CATALOG) for one in kinds)


@pytest.mark.parametrize("word", ["p4d.99xlarge", "g5.metal", "a2-highgpu-3g", "Standard_NC7as_T4_v3"])
def test_a_size_that_no_cloud_has_is_not_known(word: str) -> None:
    assert instance_of(word, CATALOG) is None
    with pytest.raises(NotKnown):
        machine(gpu=word)


def test_a_workspace_adds_kinds_of_machines_and_spellings() -> None:
    layer = Layer(
        {
            "instances": "[big-node]\npattern = 'big-node-[0-9]+'\n"
            'gpu = "H100"\ncpu = "zen4"\nsource = "us"\n',
            "gpus": '[sm89]\nspelled.add = ["shinycard"]\n',
        }
    )
    own = Catalog([*CATALOG.layers, layer])
    host = capability_of(gather([], stated_facts(own, "a test", gpu="big-node-7"), own, 1.0))
    assert [str(sm) for sm in host.sms or ()] == ["sm90"]
    assert host.features
    assert instance_of("big-node-7", CATALOG) is None
    assert product_of_name("ShinyCard", own) == own.gpus[next(sm for sm in own.gpus if sm.number == 89)]


TABLE = (
    "| NVIDIA-SMI {smi}    Driver Version: {driver}    CUDA Version: 12.6 |\n|   0  NVIDIA L4   On  | x |\n"
)


@pytest.mark.parametrize(
    ("smi", "driver", "windows"),
    [
        ("560.35.02", "560.94", True),
        ("535.103", "537.13", True),
        ("550.54.14", "550.54.14", False),
        ("455.45.01", "418.67", False),  # a container's own nvidia-smi
    ],
)
def test_a_driver_of_windows_is_told_by_wsls_header(smi: str, driver: str, windows: bool) -> None:
    assert known(TABLE.format(smi=smi, driver=driver)).windows is windows


def test_windows_drivers_are_compared_by_windows_numbers() -> None:
    old = known(TABLE.format(smi="525.60.13", driver="527.56"))
    assert old.windows
    assert [one.cuda for one in wheels_for(old, CATALOG)] == [""]
    assert wheels_for(known(TABLE.format(smi="525.78.01", driver="528.49")), CATALOG)[0].cuda


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("MI100", "gfx908"), ("AMD Instinct MI210", "gfx90a"), ("mi250x", "gfx90a"), ("MI300X", "gfx942"),
        ("Instinct MI300A", "gfx942"), ("MI325X", "gfx942"), ("MI355X", "gfx950"), ("Radeon VII", "gfx906"),
        ("RX 6800 XT", "gfx1030"), ("RX 6700 XT", "gfx1031"), ("RX 6600", "gfx1032"),
        ("RX 7900 XTX", "gfx1100"), ("rx7800xt", "gfx1101"), ("RX 7600 XT", "gfx1102"),
        ("Radeon 780M", "gfx1103"), ("Radeon 8060S", "gfx1151"), ("RX 9060 XT", "gfx1200"),
        ("RX 9070 XT", "gfx1201"), ("Radeon PRO W7900", "gfx1100"), ("Radeon AI PRO R9700", "gfx1201"),
        ("Navi 31", "gfx1100"), ("AMD_Instinct_MI300X_OAM", "gfx942"), ("gfx90a", "gfx90a"),
    ],
)  # fmt: skip
def test_a_product_of_amd_has_its_target(name: str, target: str) -> None:
    gfx = gfx_of_name(name, CATALOG)
    assert gfx is not None
    assert gfx.name == target
    host = machine(gpu=name, system="x86_64")
    assert host.non_nvidia_gpus
    assert host.sms == ()


def test_the_wheel_is_for_the_maker_of_the_gpu_and_both_have_one() -> None:
    amd = wheels_for(machine(gpu="RX 7900 XTX", system="x86_64"), CATALOG)
    assert [one.rocm for one in amd] == ["7.2"]
    both = wheels_for(machine(gpu="RTX 3060 + RX 7900 XTX", cpu="zen4", driver="570.124.06"), CATALOG)
    assert [bool(one.rocm) for one in both] == [False, True]
    assert both[0].cuda
    without = wheels_for(machine(gpu="RX 580", system="x86_64"), CATALOG)
    assert not any(one.rocm for one in without)


def test_amds_targets_are_those_of_llvm() -> None:
    program = shutil.which("llc")
    if program is None:
        pytest.skip("llc is not installed")
    listed = run([program, "-mtriple=amdgcn", "-mcpu=help"], stdin="", timeout=60)
    targets = set(re.findall(r"^\s+(gfx[\w-]+)\s+- Select", listed.stdout + listed.stderr, re.MULTILINE))
    newest = max(int(name[3:], 16) for name in targets if re.fullmatch(r"gfx1\d{3}", name))
    ours = {gfx.name for gfx in CATALOG.gfx.values()}
    older = {name for name in ours if int(name[3:], 16) <= newest and name not in ("gfx942", "gfx950")}
    assert older <= targets
    generic = {gfx.generic for gfx in CATALOG.gfx.values() if gfx.generic}
    assert not any("generic" in name and name[3:4].isdigit() for name in targets) or generic & targets


@pytest.mark.parametrize(
    ("text", "sms", "unknown"),
    [
        (
            "NodeName=n1 Arch=x86_64 \n   Gres=(null)\n  Name=gpu Type=h100 File=/dev/nvidia0\n",
            ["sm90"],
            False,
        ),
        (
            "GPU 0,1                NVIDIA TITAN RTX (arch=7.5)\nsys.platform           linux\n",
            ["sm75"],
            False,
        ),
        (
            "docker run --device=nvidia.com/gpu=all x nvidia-smi\n|   0  NVIDIA L4   On  | x |\n",
            ["sm89"],
            False,
        ),
        ('library=cuda variant=v12 compute=8.6 driver=12.2 name="NVIDIA A10G" total=1\n', ["sm86"], False),
    ],
)
def test_lines_that_strangers_pasted_are_not_passed_over(text: str, sms: list[str], unknown: bool) -> None:
    host = known(text)
    assert [str(sm) for sm in host.sms or ()] == sms
    assert bool(host.unknown_gpus) is unknown


def test_an_inventory_with_rows_that_differ_in_name_alone(tmp_path: Path) -> None:
    from torchsmith.host.fleet import read_fleet

    (tmp_path / "fleet.csv").write_text("name,gpu,cpu\na,H100,zen4\nb,H100,zen4\n,H100,zen4\nc,L4,zen4\n")
    fleet = read_fleet(tmp_path / "fleet.csv", CATALOG)
    assert [kind.name for kind in fleet.kinds if kind.name] == ["a", "b", "row 4", "c"]
    assert len({id(kind.facts) for kind in fleet.kinds}) == 2


def test_a_machine_type_replaces_the_gpus_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "smi.csv"
    report.write_text("name, driver_version, compute_cap\nNVIDIA H100 80GB HBM3, 580.65.06, 9.0\n")
    facts = gather((report,), stated(gpu="g6.xlarge"), CATALOG, 1.0)
    assert [str(sm) for sm in capability_of(facts).sms or ()] == ["sm89"]


def test_a_fleet_of_three_makers_gives_no_machine_a_build_that_leaves_its_gpu_idle(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(
        "name,system,cpu,gpu,driver\n"
        "nvidia,,zen4,H100,570.124.06\namd,,zen4,RX 7900 XTX,\nmac,aarch64-darwin,,,\nbare,,zen4,none,\n"
    )
    fleet = read_fleet(tmp_path / "fleet.csv", CATALOG)
    cells = open_workspace(None, "wide").cells_of(CATALOG.torch)
    cover = Cover(fleet, cells, CATALOG, CATALOG.workloads["general"])
    rows = cover.served(cover.fewest())
    assert [row.label for row in rows if "amd" in row.kinds] == ["amd (RX 7900 XTX)"]
    given = {name: row.variant for row in rows for name in row.kinds}
    assert {name for name, variant in given.items() if variant is None} == {"amd", "mac"}
    assert Variant.parse(given["nvidia"] or "", CATALOG).cuda
    assert Variant.parse(given["bare"] or "", CATALOG).cuda is None


def test_nodes_of_kubernetes_and_slurm_with_amds_gpus_get_no_build() -> None:
    labels = (
        "Name: n1\nLabels: kubernetes.io/arch=amd64\n  amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM\n"
    )
    for text in (labels, "NodeName=n1 Arch=x86_64 Gres=gpu:mi300x:8\n"):
        host = known(text)
        assert host.non_nvidia_gpus
        assert not host.sms
        assert [one.rocm for one in wheels_for(host, CATALOG)] == ["7.2"]


def test_a_machine_with_an_amd_gpu_is_served_by_its_build_under_a_condition() -> None:
    def picked(gpu: str) -> torchsmith.PickReport:
        machine = torchsmith.MachineOptions(gpu=(gpu,), cpu="zen4")
        return torchsmith.pick(torchsmith.PickRequest(machine=machine, profile="rocm"))

    report = picked("MI300X")
    assert report.choice[0].name == "pytorch-python313-rocm6_4-gfx942-avx512"
    assert ["amdgpu" in reason for reason in report.choice[0].assumptions] == [True]
    assert report.served
    assert not picked("RX 580").served


@pytest.mark.parametrize("gpu", ["MI50", "MI60", "Radeon VII", "Vega 56", "Vega 64", "MI25"])
def test_a_gpu_that_newer_rocm_libraries_have_no_code_for_gets_an_older_rocm(gpu: str) -> None:
    (offer,) = wheels_for(machine(cpu="zen4", gpu=gpu), CATALOG)
    assert (offer.rocm, offer.idle) == ("6.3", ())
