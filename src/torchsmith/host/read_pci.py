"""GPUs out of what lspci lists, of every maker."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, fact_of
from torchsmith.host.scan import words

SLOT = r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
LSPCI = rf"^(?:.*[ \t])?{SLOT} (?:[A-Z]|3D)[\w /-]+(?:\[[0-9a-f]{{4}}\])?: \w"
GRAPHICS = rf"^(?:.*[ \t])?({SLOT}) (?:VGA compatible|3D|Display) controller[^:\n]*: (.+)$"
NAME = r"\[(?![0-9a-f]{4}:)([^\]\n]+)\]"


def read_lspci(text: str, source: str = "lspci") -> HostFacts | None:
    """`lspci`, with or without -nn: graphics by the product in brackets and by the chip."""
    gpus, notes, others = [], [], []
    listed = re.findall(GRAPHICS, text, re.MULTILINE)
    for slot, description in listed:
        names = re.findall(NAME, description.partition("(prog-if")[0])
        if description.lower().startswith("nvidia"):
            chip = re.match(r"\w+(?: Corporation| A)? (\w+)", description, re.IGNORECASE)
            gpus.append(
                GpuFacts(
                    name=fact_of(names[0] if names else "", source),
                    chip=fact_of(chip[1] if chip and chip[1] != "Device" else "", source),
                    address=slot[-7:],
                )
            )
            continue
        maker = re.match(r"^(.*?)(?: Corporation|, Inc\.| Inc\.| \[|$)", description)
        notes.append(Note(source, f"lists a GPU of {maker[1] if maker else description}, not of NVIDIA"))
        if words("discrete").search(description):
            others.append(names[-1] if len(names) > 1 else description)
    if not listed and not re.search(LSPCI, text, re.MULTILINE):
        return None
    if not listed:
        return HostFacts(notes=(Note(source, "lists no graphics: it may be cut"),))
    known = Fact(tuple(gpus), source)
    return HostFacts(gpus=known, others=fact_of(tuple(others), source), notes=tuple(dict.fromkeys(notes)))
