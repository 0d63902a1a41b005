"""GPUs out of text that is not NVIDIA's own: what lspci lists, and AMD's tools."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, said

LSPCI = r"^\S+ (VGA compatible|3D|Display) controller[^:\n]*: "
AMD_TOOLS = r"ROCm System Management Interface|^AMD-SMI |AMDSMI Tool:"
OTHERS = "builds here use NVIDIA's GPUs alone"
PATTERNS = {
    "lspci gpu": r"^(\S+) (?:VGA compatible|3D|Display) controller[^:\n]*: (.+)$",
    "lspci name": r"\[(?![0-9a-f]{4}:)([^\]\n]+)\]",
    "lspci maker": r"^(.*?)(?: Corporation|, Inc\.| Inc\.| \[|$)",
}


def read_lspci(text: str, source: str = "lspci") -> HostFacts:
    """`lspci`, with or without -nn: graphics of every maker; a product's name stands in brackets."""
    gpus, notes = [], []
    for slot, words in re.findall(PATTERNS["lspci gpu"], text, re.MULTILINE):
        if words.startswith("NVIDIA"):
            names = re.findall(PATTERNS["lspci name"], words)
            gpus.append(GpuFacts(name=said(names[0] if names else "", source), address=slot[-7:]))
        else:
            maker = re.match(PATTERNS["lspci maker"], words)
            notes.append(Note(source, f"lists a GPU of {maker[1] if maker else words}: {OTHERS}"))
    return HostFacts(gpus=Fact(tuple(gpus), source), notes=tuple(dict.fromkeys(notes)))


def read_amd_tool(text: str, source: str = "rocm-smi") -> HostFacts:
    """`rocm-smi` or `amd-smi`: there is a GPU, and it is none of NVIDIA's."""
    return HostFacts(gpus=Fact((), source), notes=(Note(source, f"lists AMD's GPUs: {OTHERS}"),))
