"""Kubernetes' nodes: JSON, YAML, what kubectl describes, and bare labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of
from torchsmith.host.node import MOST_GPUS, Node
from torchsmith.host.read_cpu import system_of_machine
from torchsmith.host.scan import AMD, scan
from torchsmith.host.vocabulary import vocabulary

LABELS = (
    r"\b(beta\.kubernetes\.io/|kubernetes\.io/|feature\.node\.kubernetes\.io/)[\w.-]+\s*[=:]"
    r"|(?<!device[ =])\bnvidia\.com/(gpu|cuda|mig)[\w.-]*\s*[=:]|\bcpu-cpuid\.[A-Z0-9]+"
)
_LABEL = re.compile(r"((?:[\w-]+\.)+(?:io|com|sh|dev|ai|aws)/[\w.-]+)\s*[=:]\s*[\"']?([^\"'\s,}]*)")
_AFTER_CPUID = (
    r"(kernel-|nvidia\.com/|pci-|system-os|storage-|network-|memory-|rdma|custom-|usb-|kubernetes\.io/)"
)


def read_kubernetes_text(text: str, source: str) -> Iterator[Node]:
    """Nodes by their labels, however they were printed."""
    for name, section in _sections(text):
        labels = dict(_LABEL.findall(section))
        cpuid = list(re.finditer(r"cpu-cpuid\.([A-Z0-9_.]+)", section))
        labels |= {_CPUID + match[1]: "true" for match in cpuid}
        arch = re.search(r"^\s*[Aa]rchitecture:\s*(\S+)", section, re.MULTILINE)
        capacity = {key: value for key, value in labels.items() if key in ("nvidia.com/gpu", "amd.com/gpu")}
        item = {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": capacity, "nodeInfo": {"architecture": arch[1]} if arch else {}},
        }
        node = kubernetes_node(item, source)
        cut = bool(cpuid) and not re.search(_AFTER_CPUID, section[cpuid[-1].end() :])
        facts = replace(node.facts, cut_features=Fact(True, source)) if cut else node.facts
        models = re.findall(r"gpu\.vendor\.nvidia\.model\.(\w+)=", section)
        if facts.gpus is None and models:  # as Akash labels its providers
            facts = replace(facts, gpus=Fact((GpuFacts(name=Fact(models[0], source)),), source))
        yield Node(node.name, scan(section, source, known=facts))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Each node's name and text."""
    described = re.split(r"^Name:\s+(\S+)\s*$", text, flags=re.MULTILINE)
    if len(described) > 1:
        yield from zip(described[1::2], described[2::2], strict=True)
        return
    rows = [line for line in text.splitlines() if len(_LABEL.findall(line)) > 2 and "=" in line]
    if rows and all(re.match(r"\S+\s+\S+\s+\S+", row) for row in rows):
        yield from ((row.split()[0], row) for row in rows)
        return
    documents = re.split(r"^\s*apiVersion: v1\s*$", text, flags=re.MULTILINE)
    for document in filter(re.compile(LABELS).search, documents):
        name = re.search(r"^\s+name:\s*(\S+)", document, re.MULTILINE)
        yield name[1] if name else "a node without a name", document


_GPU = "nvidia.com/gpu."
_CPUID = "feature.node.kubernetes.io/cpu-cpuid."
_MODEL = "feature.node.kubernetes.io/cpu-model."
_PCI = "feature.node.kubernetes.io/pci-"


def kubernetes_node(item: Mapping[str, Any], source: str) -> Node:
    """A node with the labels of node feature discovery and of NVIDIA's GPU feature discovery."""
    metadata = _table(item, "metadata")
    labels = {key: str(value) for key, value in _table(metadata, "labels").items()}
    arch = labels.get("kubernetes.io/arch") or labels.get("beta.kubernetes.io/arch")
    arch = arch or _table(_table(item, "status"), "nodeInfo").get("architecture")
    notes: list[Note] = []
    words = vocabulary().kubernetes
    features = {
        words.features.get(word.lower(), word.lower())
        for word in (key.removeprefix(_CPUID) for key in labels if key.startswith(_CPUID))
    }
    for word, others in words.implied.items():
        features.update(others if word in features else ())
    vendor, *model = [labels.get(_MODEL + key, "") for key in ("vendor_id", "family", "id")]
    id_ = "/".join([words.vendors.get(vendor, vendor), *model])
    facts = HostFacts(
        system=Fact(system_of_machine(str(arch)), source) if arch else None,
        cpu_id=Fact(id_, source) if vendor and all(model) else None,
        features=fact_of(frozenset(features), source),
        driver=_label_driver(labels, source, notes),
        gpus=_label_gpus(labels, _table(_table(item, "status"), "capacity"), source, notes),
        others=fact_of(_label_others(labels, item), source),
        instance=fact_of(next((labels[key] for key in labels if key.endswith("/instance-type")), ""), source),
    )
    facts = replace(facts, notes=tuple(notes))
    return Node(str(metadata.get("name", "a node without a name")), facts)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _label_others(labels: Mapping[str, str], item: Mapping[str, Any]) -> tuple[str, ...]:
    """AMD's GPUs, by the labels of its device plugin."""
    names = [value for key, value in labels.items() if re.search(r"amd\.com/gpu\.product-name$", key)]
    return tuple(names) or ((AMD,) if "amd.com/gpu" in str(item.get("status", "")) else ())


def _label_driver(labels: Mapping[str, str], source: str, notes: list[Note]) -> Fact[DriverVersion] | None:
    """The whole version, or in parts as older releases of the discovery label it."""
    parts = (labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev"))
    text = labels.get("nvidia.com/cuda.driver-version.full") or ".".join(part for part in parts if part)
    return driver_fact(text, source, notes)


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
            generation=fact_of(labels.get(f"{_GPU}family", "").removesuffix("-lovelace").title(), source),
            mig=Fact(True, source) if " MIG " in product else None,
        )
        many = labels.get(f"{_GPU}count", "1")
        return Fact((gpu,) * min(int(many), MOST_GPUS) if many.isdigit() else (gpu,), source)
    count = str(capacity.get("nvidia.com/gpu", "0"))
    present = any(key.startswith(_PCI) and "10de" in key for key in labels) or count != "0"
    if present or any(key.startswith(("nvidia.com/gpu", "nvidia.com/cuda")) for key in labels):
        notes.append(
            Note(source, "shows an NVIDIA GPU without nvidia.com/gpu.product: which one is unknown", gpu=True)
        )
        number = min(int(count), MOST_GPUS) if count.isdigit() and count != "0" else 1
        return Fact((GpuFacts(),) * number, source)
    # Who labels other PCI devices would have labelled a GPU.
    return Fact((), source) if any(key.startswith(_PCI) for key in labels) else None
