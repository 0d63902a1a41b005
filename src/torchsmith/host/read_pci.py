"""GPUs out of text that is not NVIDIA's own: what lspci lists, and AMD's tools."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, said
from torchsmith.host.products import sm_of_chip

SLOT = r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
LSPCI = rf"^(.*[ \t])?{SLOT} (VGA compatible|3D|Display) controller[^:\n]*: "
ANY_LSPCI = rf"^(.*[ \t])?{SLOT} [A-Z][\w /-]+(\[[0-9a-f]{{4}}\])?: \w"
AMD_TOOLS = (
    r"ROCm System Management Interface|^AMD-SMI |AMDSMI Tool:"
    r"|^\s*HSA Agents|HSA System Attributes|ROCk module"
)
OTHERS = "builds here use NVIDIA's GPUs alone"
PATTERNS = {
    "lspci gpu": rf"^(?:.*[ \t])?({SLOT}) (?:VGA compatible|3D|Display) controller[^:\n]*: (.+)$",
    "lspci name": r"\[(?![0-9a-f]{4}:)([^\]\n]+)\]",
    "lspci maker": r"^(.*?)(?: Corporation|, Inc\.| Inc\.| \[|$)",
}


def read_lspci(text: str, source: str = "lspci") -> HostFacts:
    """`lspci`, with or without -nn: graphics of every maker, by the product in brackets or by the chip."""
    gpus, notes, others = [], [], []
    listed = re.findall(PATTERNS["lspci gpu"], text, re.MULTILINE)
    for slot, words in listed:
        maker = re.match(PATTERNS["lspci maker"], words)
        if words.lower().startswith("nvidia"):
            gpus.append(_pci_gpu(words, slot, source))
            continue
        notes.append(Note(source, f"lists a GPU of {maker[1] if maker else words}: {OTHERS}"))
        if re.search(r"\bInstinct\b|\bRadeon (RX|PRO|VII)", words):
            others.append(re.findall(PATTERNS["lspci name"], words)[-1])
    if not listed:
        return HostFacts(notes=(Note(source, "lists no graphics: it may be cut"),))
    known = Fact(tuple(gpus), source)
    return HostFacts(gpus=known, others=said(tuple(others), source), notes=tuple(dict.fromkeys(notes)))


def _pci_gpu(words: str, slot: str, source: str) -> GpuFacts:
    names = re.findall(PATTERNS["lspci name"], words)
    chip = re.match(r"\w+(?: Corporation| A)? (\w+)", words, re.IGNORECASE)
    sm = sm_of_chip(chip[1]) if chip else None
    name = names[0] if names else chip[1] if chip and sm else ""
    return GpuFacts(
        name=said(name, source),
        sm=Fact(sm, f"{source}, chip {chip[1]}") if chip and sm else None,
        address=slot[-7:],
    )


def read_amd_tool(text: str, source: str = "rocm-smi") -> HostFacts:
    """`rocm-smi`, `amd-smi` or `rocminfo`: an AMD GPU, and none of NVIDIA's; agents name the CPU."""
    found = re.findall(
        r"Card (?:series|model|SKU)\s*:\s*(.+)|^\s*(?:Market ?name|MARKET_NAME)\s*:\s*(.+)",
        text,
        re.MULTILINE | re.IGNORECASE,
    )
    names = [word.strip() for pair in found for word in pair if word]
    cpu = ""
    for agent in re.split(r"^\s*Agent \d+\s*$", text, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^\s*([\w ]+?):\s+(\S.*?)\s*$", agent, re.MULTILINE))
        if fields.get("Device Type") == "CPU":
            cpu = cpu or fields.get("Marketing Name") or fields.get("Name", "")
        elif fields.get("Device Type") == "GPU":
            names.append(f"{fields.get('Marketing Name', 'an AMD GPU')} ({fields.get('Name', 'gfx?')})")
    system = "x86_64-linux" if re.search(r"\b(AMD|Intel)\b", cpu) else ""
    return HostFacts(
        system=said(system, source),
        cpu_name=said(cpu, source),
        gpus=Fact((), source),
        others=Fact(tuple(dict.fromkeys(names)) or ("an AMD GPU",), source),
        notes=(Note(source, f"lists AMD's GPUs: {OTHERS}"),),
    )
