"""Reports about a machine that is not at hand: text in any layout, of a tool or of a person."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.core.files import MAX_BYTES, read_bytes, unreadable
from torchsmith.core.problem import Conflict, Empty, Invalid
from torchsmith.core.text import shell_word
from torchsmith.host.document import from_document
from torchsmith.host.facts import MARK, HostFacts
from torchsmith.host.nodes import load_json, split_nodes
from torchsmith.host.normalise import decode, normalise, without_repeats
from torchsmith.host.read_cpu import read_cpu
from torchsmith.host.scan import scan

BINARY = (b"PK\x03\x04", b"\x7fELF", b"\x1f\x8b", b"\x89PNG", b"%PDF-")
DOCUMENT = rf'"{MARK}"\s*:'
ASK = (
    "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv; lscpu; cat /etc/os-release; or"
    " torchsmith pick --facts --json"
)


def read_report(text: str, name: str, catalog: Catalog | None = None) -> HostFacts:
    """What a text says of one machine. Raises a Problem if it says nothing, or is about several."""
    if re.search(DOCUMENT, text):
        return from_document(load_json(text.removeprefix("\ufeff"), name), name)
    text = normalise(text)
    nodes = split_nodes(text, name)
    if len(nodes) > 1:
        hint = "torchsmith cover takes all of them; scontrol and kubectl print one by its name"
        raise Conflict(f"{name} describes {len(nodes)} machines, not one", hint=hint)
    from_json = nodes and nodes[0].text not in text
    facts = read_text(nodes[0].text if from_json else text, name, catalog)
    if facts == HostFacts():
        raise Invalid(f"{name} says nothing of a machine", hint=f"these commands do: {ASK}")
    return facts


def read_text(text: str, name: str, catalog: Catalog | None = None) -> HostFacts:
    """The facts of a text about one machine: its CPU's features, then all that the scanner finds."""
    text = without_repeats(text)
    return scan(text, name, catalog, read_cpu(text, name) or HostFacts())


def report_text(path: Path) -> str:
    """The text of a report, `-` for standard input. Bytes that are not UTF-8 are replaced."""
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else read_bytes(path)
    except OSError as error:
        raise unreadable(path, error) from error
    text = decode(data)
    if data.startswith(BINARY) or "\0" in text:
        library = data.startswith(b"\x7fELF") or (data.startswith(b"PK") and path.suffix == ".whl")
        if library:
            what = "a wheel" if path.suffix == ".whl" else "a library or program"
            raise Invalid(
                f"{path} is {what}, not a report", hint=f"torchsmith verify {shell_word(str(path))}"
            )
        raise Invalid(f"{path} is not text", hint=f"these commands describe a machine: {ASK}")
    if not text.strip():
        raise Empty(f"{path} is empty", hint=f"these commands describe a machine: {ASK}")
    return text


def read_report_file(path: Path, catalog: Catalog | None = None) -> HostFacts:
    """The report in a file, or in standard input."""
    return read_report(report_text(path), "standard input" if str(path) == "-" else path.name, catalog)
