"""Records of clusters: one machine of a scheduler is read like any text, several are refused."""

from __future__ import annotations

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Conflict, Invalid
from torchsmith.host.read_report import read_report
from torchsmith.host.resolve import Capability, capability_of, resolve

CATALOG = builtin_catalog()
SLURM = """\
NodeName={} Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64 Gres=gpu:{}:8
   OS=Linux 5.14.0-427.el9.x86_64 #1 SMP

"""
KUBERNETES = """\
apiVersion: v1
kind: Node
metadata:
  labels:
    kubernetes.io/arch: {}
    kubernetes.io/hostname: a
    nvidia.com/gpu.product: {}
    nvidia.com/cuda.driver-version.full: 550.107.02
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Thu Mar 12 19:53:46 2026</timestamp>
	<driver_version>580.65.06</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:07:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<product_brand>NVIDIA</product_brand>
		<product_architecture>Hopper</product_architecture>
		<mig_mode>
			<current_mig>Enabled</current_mig>
			<pending_mig>Enabled</pending_mig>
		</mig_mode>
		<fb_memory_usage>
			<total>81559 MiB</total>
		</fb_memory_usage>
		<mig_devices><mig_device><fb_memory_usage>
			<total>9856 MiB</total>
		</fb_memory_usage></mig_device></mig_devices>
	</gpu>
	<gpu id="00000000:0B:00.0">
		<product_name>NVIDIA GeForce RTX 4090</product_name>
		<product_architecture>Ada Lovelace</product_architecture>
		<mig_mode><current_mig>N/A</current_mig></mig_mode>
	</gpu>
</nvidia_smi_log>
"""


def read(text: str) -> Capability:
    return capability_of(resolve(read_report(text, "node"), CATALOG))


def test_one_machine_of_a_scheduler_is_a_text_like_any_other() -> None:
    slurm = read(SLURM.format("gpu01", "a100"))
    assert (slurm.system, [*map(str, slurm.sms or ())], slurm.driver) == ("x86_64-linux", ["sm80"], None)
    node = read(KUBERNETES.format("arm64", "NVIDIA-GH200-480GB"))
    assert (node.system, [*map(str, node.sms or ())]) == ("aarch64-linux", ["sm90"])
    assert str(node.driver) == "550.107.02"


@pytest.mark.parametrize(
    "text",
    [
        SLURM.format("a", "a100") + SLURM.format("b", "h100"),
        KUBERNETES.format("amd64", "NVIDIA-L4") * 2,
        "n1 Ready kubernetes.io/arch=amd64,a.io/b=c\nn2 Ready kubernetes.io/arch=arm64,a.io/b=c\n",
        '{"items": [{\n"kind": "Node",\n"a": 1}, {\n"kind": "Node",\n"a": 2}]}',
    ],
)
def test_several_machines_are_not_taken_for_one(text: str) -> None:
    with pytest.raises(Conflict, match="2 machines") as caught:
        read_report(text, "nodes")
    assert "torchsmith cover" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        'a | SUCCESS => {\n    "ansible_facts": {"ansible_architecture": "x86_64"}\n}\n',
        '{"a": {"ansible_architecture": "x86_64"}, "b": {"ansible_architecture": "aarch64"}}',
        "n1\n     Mom = n1\n     resources_available.ngpus = 2\n     resources_available.gpu_type = a100\n",
    ],
)
def test_facts_of_ansible_and_pbs_are_refused_and_not_taken_for_one_machine(text: str) -> None:
    with pytest.raises(Invalid, match="Ansible or PBS") as caught:
        read_report(text, "nodes")
    assert "lscpu" in caught.value.hint


def test_nvidia_smi_as_xml_says_what_q_says() -> None:
    host = read(XML)
    assert ([*map(str, host.sms or ())], str(host.driver)) == (["sm89", "sm90"], "580.65.06")
