"""Fleets as schedulers and inventories keep them; what they do not say stays unknown."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Invalid, Problem
from torchsmith.host.fleet import Fleet, read_fleet
from torchsmith.host.nodes import split_nodes
from torchsmith.host.read_report import read_report, read_text
from torchsmith.host.resolve import Capability, capability_of, known_isas, resolve

CATALOG = builtin_catalog()
CLUSTERS = Path(__file__).parent / "clusters"
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


def hosts(fleet: Fleet) -> dict[str, Capability]:
    return {kind.name: capability_of(resolve(kind.facts, CATALOG)) for kind in fleet.kinds}


def sms(host: Capability) -> list[str] | None:
    return None if host.sms is None else [str(sm) for sm in host.sms]


def isas(host: Capability) -> tuple[str, ...] | None:
    return None if host.features is None else known_isas(host.features, host.system, CATALOG)


def test_slurm_tells_gpus_and_systems_and_nothing_of_cpus_and_drivers() -> None:
    found = hosts(read_fleet(CLUSTERS / "scontrol.txt", CATALOG))
    assert {name: sms(host) for name, host in found.items()} == {
        "gpu01": ["sm80"],
        "gpu02": ["sm90"],
        "desk01": ["sm86", "sm89"],
        "odd01": [],
        "grace01": ["sm90"],
        "cpu01": [],
    }
    assert found["odd01"].unknown_gpus
    assert not found["cpu01"].unknown_gpus
    assert found["grace01"].system == "aarch64-linux"
    assert {name for name, host in found.items() if host.features} == {"grace01"}  # a GH200 has no other CPU
    assert {host.driver for host in found.values()} == {None}


def test_slurm_in_one_line_says_the_same(tmp_path: Path) -> None:
    text = (CLUSTERS / "scontrol.txt").read_text()
    lines = [" ".join(record.split()) for record in text.split("\n\n") if record.strip()]
    (tmp_path / "nodes").write_text("\n".join(lines) + "\n")
    assert hosts(read_fleet(tmp_path / "nodes", CATALOG)) == hosts(
        read_fleet(CLUSTERS / "scontrol.txt", CATALOG)
    )


def test_slurm_as_json_says_the_same(tmp_path: Path) -> None:
    """`scontrol show node --json` and slurmrestd: fields as Slurm's data_parser names them."""
    nodes = []
    for record in (CLUSTERS / "scontrol.txt").read_text().split("\n\n"):
        fields = dict(word.split("=", 1) for word in record.split() if "=" in word)
        if fields:
            gres = "" if fields["Gres"] == "(null)" else fields["Gres"]
            nodes.append(
                {"architecture": fields["Arch"], "name": fields["NodeName"], "gres": gres, "state": ["IDLE"]}
            )
    document = {
        "nodes": nodes,
        "last_update": {"set": True},
        "meta": {"slurm": {"release": "24.11.3"}},
        "errors": [],
    }
    (tmp_path / "nodes.json").write_text(json.dumps(document))
    assert hosts(read_fleet(tmp_path / "nodes.json", CATALOG)) == hosts(
        read_fleet(CLUSTERS / "scontrol.txt", CATALOG)
    )
    one = read_report(json.dumps({**document, "nodes": nodes[:1]}), "node.json")
    assert sms(capability_of(resolve(one, CATALOG))) == ["sm80"]


def test_kubernetes_labels_tell_cpu_gpu_and_driver() -> None:
    found = hosts(read_fleet(CLUSTERS / "kubectl.json", CATALOG))
    h100, mig, grace = found["h100-1"], found["a100-mig"], found["grace"]
    assert (sms(h100), str(h100.driver), h100.system) == (["sm90"], "550.107.02", "x86_64-linux")
    assert isas(h100) == ("avx512bf16", "avx512vnni", "avx512", "avx2", "avx")
    assert (sms(mig), str(mig.driver), isas(mig)) == (["sm80"], "455", ("avx2", "avx"))
    assert (sms(grace), grace.system, isas(grace)) == (["sm90"], "aarch64-linux", ("armv9", "armv8_2"))


def test_what_a_kubernetes_node_does_not_label_stays_unknown() -> None:
    found = hosts(read_fleet(CLUSTERS / "kubectl.json", CATALOG))
    assert found["unlabelled-gpu"].unknown_gpus
    assert sms(found["no-gpu"]) == []  # other PCI devices are labelled, and no GPU is among them
    assert (sms(found["bare"]), isas(found["bare"]), found["bare"].driver) == (None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        'a | SUCCESS => {\n    "ansible_facts": {"ansible_architecture": "x86_64"}\n}\n',
        '{"a": {"ansible_architecture": "x86_64"}, "b": {"ansible_architecture": "aarch64"}}',
        "n1\n     Mom = n1\n     resources_available.ngpus = 2\n     resources_available.gpu_type = a100\n",
    ],
)
def test_facts_of_ansible_and_pbs_are_refused_and_not_taken_for_one_machine(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "nodes").write_text(text)
    for read in (lambda: read_fleet(tmp_path / "nodes", CATALOG), lambda: read_report(text, "nodes")):
        with pytest.raises(Invalid, match="Ansible or PBS") as caught:
            read()
        assert "lscpu" in caught.value.hint


def test_nvidia_smi_as_xml_says_what_q_says() -> None:
    host = capability_of(resolve(read_report(XML, "smi.xml"), CATALOG))
    assert (sms(host), str(host.driver)) == (["sm89", "sm90"], "580.65.06")


@pytest.mark.parametrize("name", ["scontrol.txt", "kubectl.json"])
def test_pick_takes_one_machine_of_a_cluster_and_refuses_many(name: str) -> None:
    text = (CLUSTERS / name).read_text()
    with pytest.raises(Problem, match=rf"{name}.*\d"):
        read_report(text, name)
    nodes = split_nodes(text, name)
    if name == "kubectl.json":
        one = json.dumps(json.loads(text)["items"][0])
    else:
        one = text[: text.index("NodeName=gpu02")]
    assert read_report(one, name) == read_text(nodes[0].text, name)


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "List", "items": 7}',
        '{"kind": "Node"}',
        '{"kind": "List", "items": [{"metadata": {"labels": {"nvidia.com/gpu.product": 7}}}]}',
        '{"kind": "Node", "metadata": {"labels": {"nvidia.com/cuda.driver.major": "x"}}}',
        '{"kind": ' + "[" * 100_000,
        "NodeName=a Gres=gpu:\n",
        "NodeName=a Gres=gpu:a100:99999999999,,gpu::\n",
    ],
)
def test_a_record_that_is_wrong_is_read_or_refused_in_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with contextlib.suppress(Problem):
        read_fleet(tmp_path / "f", CATALOG)
    with contextlib.suppress(Problem):
        read_report(text, "f")
