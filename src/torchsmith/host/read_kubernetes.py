"""Labels of Kubernetes' nodes: node feature discovery's, NVIDIA's, AMD's and the clouds'."""

from __future__ import annotations

import re
from pathlib import Path

from torchsmith.catalog.axes import Sm
from torchsmith.core.toml import read_cached
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of
from torchsmith.host.read_cpu import system_of_machine

LABELS = (
    r"\b(beta\.kubernetes\.io/|kubernetes\.io/|feature\.node\.kubernetes\.io/|cloud\.google\.com/gke-)[\w.-]+\s*[=:]"
    r"|(?<!device[ =])\bnvidia\.com/(gpu|cuda|mig)[\w.-]*\s*[=:]|\bcpu-cpuid\.[A-Z0-9]+"
)
LABEL = re.compile(r"((?:[\w-]+\.)+(?:io|com|sh|dev|ai|aws)/[\w.-]+)\s*[=:][ \t]*[\"']?([^\"'\s,}]*)")
_AFTER_CPUID = (
    r"(kernel-|nvidia\.com/|pci-|system-os|storage-|network-|memory-|rdma|custom-|usb-|kubernetes\.io/)"
)
# Clouds' labels that name the GPU.
_ACCELERATORS = (
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
_GPU = "nvidia.com/gpu."
_MODEL = "feature.node.kubernetes.io/cpu-model."
_PCI = "feature.node.kubernetes.io/pci-"


def read_labels(text: str, source: str) -> HostFacts:
    """What the labels of one node say, however they were printed."""
    labels = dict(LABEL.findall(text))
    notes: list[Note] = []
    words = read_cached(Path(__file__).with_name("vocabulary.toml"))
    arch = labels.get("kubernetes.io/arch") or labels.get("beta.kubernetes.io/arch")
    stated = re.search(r"^\s*[Aa]rchitecture:\s*(\w+)", text, re.MULTILINE)
    arch = arch or (stated[1] if stated else "")
    cpuid = list(re.finditer(r"cpu-cpuid\.([A-Z0-9_.]+)", text))
    features = {words["features"].get(match[1].lower(), match[1].lower()) for match in cpuid}
    for word, others in words["implied"].items():
        features.update(others if word in features else ())
    vendor, *model = [labels.get(_MODEL + key, "") for key in ("vendor_id", "family", "id")]
    parts = (labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev"))
    driver = labels.get("nvidia.com/cuda.driver-version.full") or ".".join(part for part in parts if part)
    amd = [value for key, value in labels.items() if key.endswith("amd.com/gpu.product-name")]
    return HostFacts(
        system=fact_of(system_of_machine(arch) if arch else "", source),
        cpu_id=Fact("/".join([words["vendors"].get(vendor, vendor), *model]), source)
        if vendor and all(model)
        else None,
        features=fact_of(frozenset(features), source),
        cut_features=Fact(True, source)
        if cpuid and text.count("\n") and not re.search(_AFTER_CPUID, text[cpuid[-1].end() :])
        else None,
        driver=driver_fact(driver, source, notes),
        gpus=_gpus(labels, text, source, notes),
        others=fact_of(tuple(amd), source),
        instance=fact_of(next((labels[key] for key in labels if key.endswith("/instance-type")), ""), source),
        notes=tuple(notes),
    )


def _gpus(
    labels: dict[str, str], text: str, source: str, notes: list[Note]
) -> Fact[tuple[GpuFacts, ...]] | None:
    product = labels.get(f"{_GPU}product") or next(
        (labels[key] for key in _ACCELERATORS if key in labels), ""
    )
    akash = re.search(r"gpu\.vendor\.nvidia\.model\.(\w+)=", text)  # as Akash labels its providers
    product = product.replace("-", " ") or (akash[1] if akash else "")
    count = labels.get(f"{_GPU}count") or labels.get("nvidia.com/gpu", "1")
    number = min(max(int(count), 1), 64) if count.isdigit() else 1
    if product:
        major, minor = labels.get(f"{_GPU}compute.major", ""), labels.get(f"{_GPU}compute.minor", "")
        known = major.isdigit() and minor.isdigit() and len(minor) == 1 and len(major) < 3
        gpu = GpuFacts(
            name=Fact(product, source),
            sm=Fact(Sm.parse(f"{major}.{minor}"), source) if known else None,
            generation=fact_of(labels.get(f"{_GPU}family", "").removesuffix("-lovelace").title(), source),
            mig=Fact(True, source) if " MIG " in product else None,
        )
        return Fact((gpu,) * number, source)
    present = labels.get("nvidia.com/gpu", "0") != "0" or any(
        (key.startswith(_PCI) and "10de" in key)
        or key.startswith(("nvidia.com/gpu.", "nvidia.com/cuda", "nvidia.com/mig"))
        for key in labels
    )
    if present:
        notes.append(
            Note(source, "shows an NVIDIA GPU without nvidia.com/gpu.product: which one is unknown", gpu=True)
        )
        return Fact((GpuFacts(),) * number, source)
    # Who labels other PCI devices would have labelled a GPU.
    return Fact((), source) if any(key.startswith(_PCI) for key in labels) else None
