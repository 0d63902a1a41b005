"""Machines as schedulers and inventories keep them: Slurm's scontrol, Kubernetes' nodes, Ansible's facts.

What such a record does not say stays unknown: Slurm knows neither CPU features nor drivers, Ansible no GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.edge.problem import Invalid, TooLarge, Where
from torchsmith.edge.toml import read_kept
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_said, said
from torchsmith.host.read_cpu import system_of_machine

SLURM = r"^NodeName=\S+ "
ANSIBLE = r"^\S+ \| [A-Z!]+ => \{"
NODES_JSON = r'"(kind|gres|(ansible_)?architecture)"\s*:'
MOST_GPUS = 64  # a machine with more is a record that is wrong, or counts slices


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster."""

    name: str
    facts: HostFacts
    lost: str = ""  # why nothing is known of it


def read_nodes(text: str, source: str) -> list[Node] | None:
    """The machines of a cluster's record; None where the text is none."""
    if re.search(SLURM, text, re.MULTILINE):
        return list(_slurm(text, f"{source} (scontrol)"))
    if re.search(ANSIBLE, text, re.MULTILINE):
        return list(_ansible_output(text, f"{source} (ansible)"))
    if not text.lstrip().startswith("{") or not re.search(NODES_JSON, text):
        return None
    data = load_json(text, source)
    if not isinstance(data, dict):
        return None
    listed = data.get("nodes")
    slurm = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    if any("gres" in item for item in slurm):
        return [_slurm_node(item, f"{source} (scontrol --json)") for item in slurm]
    if data.get("kind") in ("List", "NodeList", "Node"):
        items = [data] if data["kind"] == "Node" else data.get("items")
        known = items if isinstance(items, list) else []
        nodes = [item for item in known if isinstance(item, dict) and item.get("kind", "Node") == "Node"]
        return [_kubernetes(item, f"{source} (kubectl)") for item in nodes]
    return list(_ansible_json(data, source)) or None


def load_json(text: str, source: str) -> Any:
    """JSON as data, or a Problem with the line of what is wrong."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"not valid JSON: {error.msg.lower()}", where=Where(source, error.lineno)) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(source)) from None


def _slurm(text: str, source: str) -> Iterator[Node]:
    """`scontrol show node`, in paragraphs or with --oneliner."""
    for record in re.split(r"^(?=NodeName=)", text, flags=re.MULTILINE)[1:]:
        fields = dict(reversed(re.findall(r"(?:^|\s)(\w+)=(\S*)", record)))
        names = {"NodeName": "name", "Arch": "architecture", "Gres": "gres"}
        yield _slurm_node({names[key]: value for key, value in fields.items() if key in names}, source)


def _slurm_node(item: Mapping[str, Any], source: str) -> Node:
    """A node by the names that `scontrol --json` and slurmrestd give its fields."""
    arch, gres = item.get("architecture"), item.get("gres")
    return Node(
        str(item.get("name") or item.get("hostname") or ""),
        HostFacts(
            system=Fact(system_of_machine(arch), source) if isinstance(arch, str) and arch else None,
            gpus=_gres(gres, source) if isinstance(gres, str) else None,
            notes=(Note(source, "Slurm tells neither CPU features nor the driver"),),
        ),
    )


def _gres(text: str, source: str) -> Fact[tuple[GpuFacts, ...]]:
    """Generic resources such as gpu:a100:4(S:0-1),shard:8; a type is part of the GPU's name, or what an
    administrator called it."""
    gpus: list[GpuFacts] = []
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        found = re.fullmatch(r"gpu(?::([^:]*[^:\d][^:]*))?(?::(\d+))?", entry)
        if found:
            name = (found[1] or "").replace("_", " ")
            gpu = GpuFacts(name=said(name, source))
            gpus += [gpu] * min(int(found[2] or 1), MOST_GPUS)
    return Fact(tuple(gpus), source)


_GPU = "nvidia.com/gpu."
_CPUID = "feature.node.kubernetes.io/cpu-cpuid."
_MODEL = "feature.node.kubernetes.io/cpu-model."
_PCI = "feature.node.kubernetes.io/pci-"
WORDS = Path(__file__).with_name("kubernetes.toml")


def _kubernetes(item: Mapping[str, Any], source: str) -> Node:
    """A node with the labels of node feature discovery and of NVIDIA's GPU feature discovery."""
    metadata = _table(item, "metadata")
    labels = {key: str(value) for key, value in _table(metadata, "labels").items()}
    arch = labels.get("kubernetes.io/arch") or _table(_table(item, "status"), "nodeInfo").get("architecture")
    notes: list[Note] = []
    words = read_kept(WORDS)
    features = {
        words["features"].get(word.lower(), word.lower())
        for word in (key.removeprefix(_CPUID) for key in labels if key.startswith(_CPUID))
    }
    for word, others in words["implied"].items():
        features.update(others if word in features else ())
    vendor, *model = [labels.get(_MODEL + key, "") for key in ("vendor_id", "family", "id")]
    id_ = "/".join([words["vendors"].get(vendor, vendor), *model])
    facts = HostFacts(
        system=Fact(system_of_machine(str(arch)), source) if arch else None,
        cpu_id=Fact(id_, source) if vendor and all(model) else None,
        features=said(frozenset(features), source),
        driver=_label_driver(labels, source, notes),
        gpus=_label_gpus(labels, _table(_table(item, "status"), "capacity"), source, notes),
    )
    for note in notes:
        facts = facts.noting(note.source, note.text)
    return Node(str(metadata.get("name", "a node without a name")), facts)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _label_driver(labels: Mapping[str, str], source: str, notes: list[Note]) -> Fact[DriverVersion] | None:
    """The whole version, or in parts as older releases of the discovery label it."""
    parts = (labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev"))
    text = labels.get("nvidia.com/cuda.driver-version.full") or ".".join(part for part in parts if part)
    return driver_said(text, source, notes)


def _label_gpus(
    labels: Mapping[str, str], capacity: Mapping[str, Any], source: str, notes: list[Note]
) -> Fact[tuple[GpuFacts, ...]] | None:
    product = labels.get(f"{_GPU}product", "").replace("-", " ")
    if product:
        major, minor = labels.get(f"{_GPU}compute.major", ""), labels.get(f"{_GPU}compute.minor", "")
        known = major.isdigit() and minor.isdigit() and len(minor) == 1
        gpu = GpuFacts(
            name=Fact(product, source),
            sm=Fact(Sm.parse(f"{major}.{minor}"), source) if known and len(major) < 3 else None,
            generation=said(labels.get(f"{_GPU}family", "").removesuffix("-lovelace").title(), source),
            mig=Fact(True, source) if " MIG " in product else None,
        )
        many = labels.get(f"{_GPU}count", "1")
        return Fact((gpu,) * min(int(many), MOST_GPUS) if many.isdigit() else (gpu,), source)
    count = str(capacity.get("nvidia.com/gpu", "0"))
    present = any(key.startswith(_PCI) and "10de" in key for key in labels) or count != "0"
    if present or labels.get(f"{_GPU}present") == "true":
        notes.append(Note(source, "shows an NVIDIA GPU without nvidia.com/gpu.product: which one is unknown"))
        number = min(int(count), MOST_GPUS) if count.isdigit() and count != "0" else 1
        return Fact((GpuFacts(),) * number, source)
    # Who labels other PCI devices would have labelled a GPU.
    return Fact((), source) if any(key.startswith(_PCI) for key in labels) else None


def _ansible_output(text: str, source: str) -> Iterator[Node]:
    """What `ansible all -m setup` prints: a host, how it went, and JSON, again and again."""
    heads = list(re.finditer(r"^(\S+) \| [A-Z!]+ => (?=\{)", text, re.MULTILINE))
    for head, after in zip(heads, [*(one.start() for one in heads[1:]), len(text)], strict=True):
        data = load_json(text[head.end() : after], f"{source}, host {head[1]}")
        facts = data.get("ansible_facts") if isinstance(data, dict) else None
        if isinstance(facts, dict) and "ansible_architecture" in facts:
            yield Node(head[1], _ansible(facts, source))
        else:
            why = str(data.get("msg", "no facts were gathered")) if isinstance(data, dict) else "no facts"
            yield Node(head[1], HostFacts(), why)


def _ansible_json(data: Mapping[str, Any], source: str) -> Iterator[Node]:
    """The setup module's result, a fact cache of one host, or facts by host."""
    own = data.get("ansible_facts", data)
    for title, facts in [("", own), *data.items()]:
        inner = facts.get("ansible_facts", facts) if isinstance(facts, dict) else None
        if isinstance(inner, dict) and ({"ansible_architecture", "architecture"} & inner.keys()):
            name = title if title not in ("", "ansible_facts") else ""
            known = inner.get("ansible_hostname") or inner.get("hostname") or "a host without a name"
            yield Node(name or str(known), _ansible(inner, f"{source} (ansible)"))
            if not title:
                return


def _ansible(facts: Mapping[str, Any], source: str) -> HostFacts:
    """Architecture, CPU flags (newer releases, x86 alone) and the CPU's name; no GPU is ever told."""

    def told(key: str) -> Any:
        return facts.get(f"ansible_{key}", facts.get(key))

    arch, kernel, flags = told("architecture"), told("system"), told("flags")
    listed = told("processor")
    names = [str(one) for one in listed if not str(one).isdigit()] if isinstance(listed, list) else []
    system = system_of_machine(str(arch)) if arch else ""
    if kernel and kernel != "Linux":
        system = f"{system.partition('-')[0]}-{str(kernel).lower()}"
    memory, release = told("memtotal_mb"), [told("distribution"), told("distribution_version")]
    return HostFacts(
        system=said(system, source),
        cpu_name=said(max(names, key=len, default=""), source),
        features=Fact(frozenset(map(str, flags)), source) if isinstance(flags, list) and flags else None,
        os=said(" ".join(str(part) for part in release if part), source),
        memory_mib=Fact(memory, source) if isinstance(memory, int) else None,
    )
